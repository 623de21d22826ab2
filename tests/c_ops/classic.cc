/* The same as C++, whose functions have longer names. */
#include "classic.c"
