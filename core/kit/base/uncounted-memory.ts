/**
 * Zeroed values that V8 does not count. It counts what each ArrayBuffer holds, and collects the whole heap whenever some MB have been
 * allocated, but not what is shared. Only for memory that is kept and reused: nothing is collected for the sake of what is given up.
 */
export const uncountedFloats = (values: number): Float32Array<SharedArrayBuffer> =>
  new Float32Array(new SharedArrayBuffer(values * Float32Array.BYTES_PER_ELEMENT))
