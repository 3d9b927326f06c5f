import { closeSync, fstatSync, openSync } from 'node:fs'
import koffi from 'koffi'
import { BrimError, orThrow } from '../../kit/base/errors.ts'
import { enlargeStacks } from '../../kit/base/native-stacks.ts'
import type { Pointer } from './capi-library.ts'

/** A read-only memory mapping of a file; its pages belong to the page cache. */
interface Mapping {
  readonly bytes: number
  readonly address: Pointer
  /** Gives the pages back to the system, which maps them again from the page cache when they are read. */
  releasePages(): void
  unmap(): void
}

const protRead = 1
const mapPrivate = 2
/** MADV_DONTNEED of madvise(2), the same on Linux and macOS. */
const dontNeed = 4
const mapFailed = 0xffff_ffff_ffff_ffffn

/** @throws BrimError BUNDLE_CORRUPT if the file is missing or empty, OUT_OF_MEMORY if it cannot be mapped */
export function mapReadOnly(path: string): Mapping {
  enlargeStacks(koffi)
  const libc = koffi.load(null)
  const mmap = libc.func('mmap', 'void*', ['void*', 'size_t', 'int', 'int', 'int', 'int64_t'])
  const munmap = libc.func('munmap', 'int', ['void*', 'size_t'])
  const madvise = libc.func('madvise', 'int', ['void*', 'size_t', 'int'])
  const fd = open(path)
  try {
    const bytes = fstatSync(fd).size
    if (bytes === 0) throw new BrimError('BUNDLE_CORRUPT', `${path} is empty`, { hint: 'build the bundle again' })
    const address: Pointer = mmap(null, bytes, protRead, mapPrivate, fd, 0)
    if (address === mapFailed)
      throw new BrimError('OUT_OF_MEMORY', `${path} (${bytes} bytes) cannot be mapped (errno ${koffi.errno()})`)
    return {
      bytes,
      address,
      releasePages: () => void madvise(address, bytes, dontNeed),
      unmap: () => void munmap(address, bytes),
    }
  } finally {
    closeSync(fd)
  }
}

function open(path: string): number {
  return orThrow(() => openSync(path, 'r'), 'BUNDLE_CORRUPT', `${path} cannot be read`, 'build the bundle again')
}
