import { statfs } from 'node:fs/promises'
import type { Source } from '../sample.ts'

/** The file system of a folder. */
export function disk(folder: string): Source {
  return {
    name: 'disk',
    async read() {
      const { bsize, blocks, bavail } = await statfs(folder)
      return { disk: { totalBytes: blocks * bsize, freeBytes: bavail * bsize } }
    },
  }
}
