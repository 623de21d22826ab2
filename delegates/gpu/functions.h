/* The part of the vocabulary that OpenCL C and CUDA C++ spell alike, where a prelude has nothing
   better; F_EXP and MAD are each's own. */
#define F_LOG(x) log(x)
#define F_SQRT(x) sqrt(x)
#define F_SIN(x) sin(x)
#define F_COS(x) cos(x)
#define F_POW(x, y) pow(x, y)
#define F_ATAN2(y, x) atan2(y, x)
#define F_CBRT(x) cbrt(x)
#define F_ABS(x) fabs(x)
#define F_COPYSIGN(x, y) copysign(x, y)
#define F_FLOOR(x) floor(x)
#define F_CEIL(x) ceil(x)
#define F_RINT(x) rint(x)
#define F_TRUNC(x) trunc(x)
#define F_MOD(x, y) fmod(x, y)
#ifndef F_TANH
#define F_TANH(x) tanh(x)
#define F_ERFC(x) erfc(x)
#define F_EXPM1(x) expm1(x)
#define F_MIN(x, y) fmin(x, y)
#define F_MAX(x, y) fmax(x, y)
#endif
