/* A library linked to the driver. Loaded with RTLD_DEEPBIND, it finds the functions of the driver, not the wrappers. */
extern int cuArrayDestroy(void *);
extern int cuCtxDestroy_v2(void *);

int destroy_array(void *array) { return cuArrayDestroy(array); }

int destroy_context(void *context) { return cuCtxDestroy_v2(context); }
