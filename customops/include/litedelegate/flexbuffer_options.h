/* Reads the options of a custom operator: a FlexBuffer whose root is a map, as TensorFlow's
 * converter and ModelBuilder write it. Nothing outside of the buffer is read, whatever it holds.
 *
 *     double offset = 0.0;
 *     LiteDelegateOptionNumber(buffer, length, "offset", &offset);
 *
 * The layout: every value has a width of 1, 2, 4 or 8 bytes; an offset is subtracted from where it
 * stands; the last two bytes are the root's packed type (type << 2 | log2 width) and its width. A
 * map is a vector of values with their packed types behind it, and three words before it: offset
 * and width of the sorted vector of its keys, and its length.
 */
#ifndef LITEDELEGATE_FLEXBUFFER_OPTIONS_H_
#define LITEDELEGATE_FLEXBUFFER_OPTIONS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A value: `at` is where it stands, in `width` bytes; 0 in `found` where there is none. */
typedef struct LiteDelegateOption {
  const unsigned char* data;
  size_t size;
  size_t at;
  unsigned width;
  unsigned type;
  unsigned child;
  int found;
} LiteDelegateOption;

enum {
  kLiteDelegateOptionInt = 1,
  kLiteDelegateOptionUInt = 2,
  kLiteDelegateOptionFloat = 3,
  kLiteDelegateOptionKey = 4,
  kLiteDelegateOptionString = 5,
  kLiteDelegateOptionIndirectInt = 6,
  kLiteDelegateOptionIndirectFloat = 8,
  kLiteDelegateOptionMap = 9,
  kLiteDelegateOptionBool = 26
};

static inline int LiteDelegateOptionWord(const unsigned char* data, size_t size, size_t at,
                                         unsigned width, uint64_t* value) {
  unsigned i;
  uint64_t sum = 0;
  if ((width != 1 && width != 2 && width != 4 && width != 8) || at > size || size - at < width)
    return 0;
  for (i = 0; i < width; ++i) sum |= (uint64_t)data[at + i] << (8 * i);
  *value = sum;
  return 1;
}

/* Where the offset at `at` leads. */
static inline int LiteDelegateOptionFollow(const unsigned char* data, size_t size, size_t at,
                                           unsigned width, size_t* target) {
  uint64_t back;
  if (!LiteDelegateOptionWord(data, size, at, width, &back) || back > at) return 0;
  *target = at - (size_t)back;
  return 1;
}

static inline LiteDelegateOption LiteDelegateOptionGet(const char* buffer, size_t length,
                                                       const char* name) {
  LiteDelegateOption option = {(const unsigned char*)buffer, length, 0, 0, 0, 0, 0};
  const unsigned char* data = option.data;
  unsigned root_width, packed, width, key_width;
  size_t map, keys, key, wanted = strlen(name) + 1;
  uint64_t count, word, i;
  if (length < 3 || length > SIZE_MAX / 2) return option;
  root_width = data[length - 1];
  packed = data[length - 2];
  width = 1u << (packed & 3);
  if (packed >> 2 != kLiteDelegateOptionMap || length - 2 < root_width) return option;
  if (!LiteDelegateOptionFollow(data, length, length - 2 - root_width, root_width, &map) ||
      map < 3 * (size_t)width ||
      !LiteDelegateOptionFollow(data, length, map - 3 * width, width, &keys) ||
      !LiteDelegateOptionWord(data, length, map - 2 * width, width, &word) ||
      !LiteDelegateOptionWord(data, length, map - width, width, &count))
    return option;
  key_width = (unsigned)word;
  for (i = 0; i < count && i < length; ++i) {
    if (!LiteDelegateOptionFollow(data, length, keys + (size_t)i * key_width, key_width, &key))
      return option;
    if (length - key >= wanted && !memcmp(data + key, name, wanted)) {
      size_t types = map + (size_t)count * width + (size_t)i;
      if (count > length || types >= length) return option;
      option.at = map + (size_t)i * width;
      option.width = width;
      option.type = data[types] >> 2;
      option.child = 1u << (data[types] & 3);
      option.found = 1;
      return option;
    }
  }
  return option;
}

static inline int LiteDelegateOptionFind(const char* buffer, size_t length, const char* name) {
  return LiteDelegateOptionGet(buffer, length, name).found;
}

static inline int64_t LiteDelegateOptionSigned(uint64_t word, unsigned width) {
  unsigned unused = 64 - 8 * width;
  uint64_t sign = (uint64_t)1 << (8 * width - 1);
  if (!unused) return (int64_t)word;
  return word & sign ? (int64_t)(word - sign) - (int64_t)sign : (int64_t)word;
}

/* 1 and the value where the option is a number or a boolean; else 0, and `value` stays. */
static inline int LiteDelegateOptionNumber(const char* buffer, size_t length, const char* name,
                                           double* value) {
  LiteDelegateOption o = LiteDelegateOptionGet(buffer, length, name);
  unsigned type = o.type;
  uint64_t word;
  if (!o.found) return 0;
  if (type >= kLiteDelegateOptionIndirectInt && type <= kLiteDelegateOptionIndirectFloat) {
    if (!LiteDelegateOptionFollow(o.data, o.size, o.at, o.width, &o.at)) return 0;
    o.width = o.child;
    type -= kLiteDelegateOptionIndirectInt - kLiteDelegateOptionInt;
  }
  if (!LiteDelegateOptionWord(o.data, o.size, o.at, o.width, &word)) return 0;
  if (type == kLiteDelegateOptionInt) {
    *value = (double)LiteDelegateOptionSigned(word, o.width);
  } else if (type == kLiteDelegateOptionUInt || type == kLiteDelegateOptionBool) {
    *value = (double)word;
  } else if (type == kLiteDelegateOptionFloat && o.width == 8) {
    memcpy(value, &word, 8);
  } else if (type == kLiteDelegateOptionFloat && o.width == 4) {
    uint32_t bits = (uint32_t)word;
    float single;
    memcpy(&single, &bits, 4);
    *value = single;
  } else {
    return 0;
  }
  return 1;
}

/* 1 and the value where the option is an integer or a boolean. */
static inline int LiteDelegateOptionInteger(const char* buffer, size_t length, const char* name,
                                            int64_t* value) {
  LiteDelegateOption o = LiteDelegateOptionGet(buffer, length, name);
  unsigned type = o.type;
  uint64_t word;
  if (!o.found) return 0;
  if (type == kLiteDelegateOptionIndirectInt || type == kLiteDelegateOptionIndirectInt + 1) {
    if (!LiteDelegateOptionFollow(o.data, o.size, o.at, o.width, &o.at)) return 0;
    o.width = o.child;
    type -= kLiteDelegateOptionIndirectInt - kLiteDelegateOptionInt;
  }
  if (type != kLiteDelegateOptionInt && type != kLiteDelegateOptionUInt &&
      type != kLiteDelegateOptionBool)
    return 0;
  if (!LiteDelegateOptionWord(o.data, o.size, o.at, o.width, &word)) return 0;
  *value = type == kLiteDelegateOptionInt ? LiteDelegateOptionSigned(word, o.width) : (int64_t)word;
  return 1;
}

/* 1, where the string starts and its length where the option is a string. */
static inline int LiteDelegateOptionText(const char* buffer, size_t length, const char* name,
                                         const char** text, size_t* text_length) {
  LiteDelegateOption o = LiteDelegateOptionGet(buffer, length, name);
  size_t at;
  uint64_t bytes;
  if (!o.found || o.type != kLiteDelegateOptionString ||
      !LiteDelegateOptionFollow(o.data, o.size, o.at, o.width, &at) || at < o.child ||
      !LiteDelegateOptionWord(o.data, o.size, at - o.child, o.child, &bytes) ||
      bytes > o.size - at)
    return 0;
  *text = buffer + at;
  *text_length = (size_t)bytes;
  return 1;
}

#endif /* LITEDELEGATE_FLEXBUFFER_OPTIONS_H_ */
