import { writeFileSync } from 'node:fs'
import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import { enlargeStacks } from '../../kit/base/native-stacks.ts'

/** Numbers of setrlimit(2), the same on Linux and macOS. */
const resources = { cpuS: 0, dataBytes: 2, coreBytes: 4 } as const

export interface ProcessLimits {
  /** CPU time of all threads. Beyond it, the kernel kills the process. */
  readonly cpuS: number
  /** Private memory that can be written; mapped files do not count. Beyond it, allocations fail. */
  readonly memoryBytes: number
}

/** Limits this process for the rest of its life. Where memory becomes short, the kernel should kill this process first. */
export function limitThisProcess({ cpuS, memoryBytes }: ProcessLimits): void {
  enlargeStacks(koffi)
  const setrlimit = koffi.load(null).func('setrlimit', 'int', ['int', 'void*'])
  const limit = (resource: number, max: number) => {
    const both = BigUint64Array.of(BigInt(max), BigInt(max))
    if (setrlimit(resource, both) !== 0)
      throw new BrimError('RUNTIME_FAILED', `the resource limit ${resource} of a process cannot be set to ${max}`)
  }
  // No dump: it would be as large as the memory.
  limit(resources.coreBytes, 0)
  limit(resources.cpuS, Math.ceil(cpuS))
  limit(resources.dataBytes, memoryBytes)
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    // Linux only.
  }
}
