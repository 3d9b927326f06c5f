/** Whether a file is what a clone without Git LFS has in place of a large one. @param start its first bytes, or all of it */
export const isLfsPointer = (start: Uint8Array | string): boolean =>
  (typeof start === 'string' ? start : new TextDecoder('latin1').decode(start)).startsWith('version ')

/** What it is, and what to try. */
export const lfsProblem = 'is a pointer of Git LFS, not the file'
export const lfsHint = 'run "git lfs install && git lfs pull" in the folder, or download the file itself'
