/* TensorFlow Lite's XNNPACK delegate, taken out of a library that has it (the option "library"), as
 * an external delegate. The option "flags": 1 int8, 2 uint8. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char bytes[256]; /* of TfLiteXNNPackDelegateOptions, whose fields differ between versions */
} Options;

static void* library;

static void* function(const char* name) { return library ? dlsym(library, name) : NULL; }

__attribute__((visibility("default"))) void* tflite_plugin_create_delegate(
    const char* const* keys, const char* const* values, size_t n, void (*report)(const char*));
__attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(void* delegate);

void* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t n,
                                    void (*report)(const char*)) {
  Options (*defaults)(void);
  void* (*create)(const Options*);
  Options options;
  void* found;
  size_t i;
  unsigned flags = 0;
  for (i = 0; i < n; ++i) {
    if (!strcmp(keys[i], "library")) library = dlopen(values[i], RTLD_NOW | RTLD_LOCAL);
    if (!strcmp(keys[i], "flags")) flags = (unsigned)atoi(values[i]);
  }
  if (!library) {
    report(n ? dlerror() : "the option library is missing");
    return NULL;
  }
  found = function("TfLiteXNNPackDelegateOptionsDefault");
  memcpy(&defaults, &found, sizeof found);
  found = function("TfLiteXNNPackDelegateCreate");
  memcpy(&create, &found, sizeof found);
  if (!create || !defaults) {
    report("the library has no XNNPACK delegate");
    return NULL;
  }
  memset(&options, 0, sizeof options);
  options = defaults();
  memcpy(options.bytes + 4, &flags, 4); /* the second field, behind the number of threads */
  return create(&options);
}

void tflite_plugin_destroy_delegate(void* delegate) {
  void (*destroy)(void*);
  void* found = function("TfLiteXNNPackDelegateDelete");
  memcpy(&destroy, &found, sizeof found);
  destroy(delegate);
}
