import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** sha256 of a file, in hex. */
export const sha256Of = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')
