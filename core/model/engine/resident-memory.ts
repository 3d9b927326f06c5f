import { readFileSync } from 'node:fs'
import koffi from 'koffi'
import { enlargeStacks } from '../../kit/base/native-stacks.ts'

/** MADV_DONTNEED of madvise(2). */
const dontNeed = 4
/** _SC_PAGESIZE of sysconf(3). */
const pageSizeName = 30

/**
 * Gives memory back that this process used to start or for an answer: free pages of the C heap, and pages of program
 * files. The kernel maps those again from the page cache when they are used; that costs an answer a few milliseconds. Linux with glibc only.
 */
export function releaseUnusedMemory(): void {
  if (process.platform !== 'linux') return
  enlargeStacks(koffi)
  const libc = koffi.load(null)
  try {
    libc.func('malloc_trim', 'int', ['size_t'])(0)
  } catch {
    // Another C library.
  }
  const madvise = libc.func('madvise', 'int', ['uint64_t', 'size_t', 'int'])
  for (const { from, to } of unchangedCode(readFileSync('/proc/self/smaps', 'utf8'))) madvise(from, Number(to - from), dontNeed)
}

/**
 * Gives the memory of a zeroed buffer back to the system, which gives it again, zeroed, when it is used: the whole pages of the system
 * within it. @returns false where nothing was given back
 */
export type ReleasePages = (buffer: Float32Array) => boolean

/** Linux only. */
export function loadReleasePages(): ReleasePages {
  if (process.platform !== 'linux') return () => false
  enlargeStacks(koffi)
  const libc = koffi.load(null)
  const madvise = libc.func('madvise', 'int', ['uint64_t', 'size_t', 'int'])
  const pageBytes = BigInt(libc.func('sysconf', 'long', ['int'])(pageSizeName))
  return (buffer) => {
    const start = koffi.address(buffer)
    const from = ((start + pageBytes - 1n) / pageBytes) * pageBytes
    const to = ((start + BigInt(buffer.byteLength)) / pageBytes) * pageBytes
    return from < to && madvise(from, Number(to - from), dontNeed) === 0
  }
}

/** Mappings of code and constants: read-only, and no page differs from its file. */
function unchangedCode(smaps: string): { from: bigint; to: bigint }[] {
  const mappings = smaps.matchAll(/^([0-9a-f]+)-([0-9a-f]+) r-[-x]p \S+ \S+ [1-9]\d* +\/.*\n(?:[A-Z].*\n)*?Anonymous: +0 kB$/gm)
  return [...mappings].map(([, from, to]) => ({ from: BigInt(`0x${from}`), to: BigInt(`0x${to}`) }))
}
