import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { BrimError, type ErrorCode } from '../../kit/base/errors.ts'
import { projectRoot } from '../../kit/base/version.ts'
import { filesOf } from '../bundle/bundle-files.ts'
import type { Manifest, PartName } from '../bundle/manifest.ts'
import type { ProcessLimits } from './process-limits.ts'
import type { PartTest } from './self-test.ts'

export interface SelfTestLimits {
  /** Time for the self-tests of all parts. */
  readonly probeTimeoutS: number
  /** Memory in addition to four times the size of the bundle's files. */
  readonly probeMemoryBytes: number
}

export interface SelfTestOptions {
  readonly threads: number
  /** Path of a libonnxruntime. Default: the one of onnxruntime-node. */
  readonly library?: string | undefined
  readonly limits: SelfTestLimits
  readonly signal: AbortSignal
}

export interface SelfTestRequest {
  readonly folder: string
  readonly parts: readonly PartName[]
  readonly threads: number
  readonly library: string | undefined
  readonly limits: ProcessLimits
}

export type SelfTestReply =
  | { readonly kind: 'testing'; readonly part: PartName }
  | { readonly kind: 'tested'; readonly test: PartTest }
  | { readonly kind: 'done' }
  | {
      readonly kind: 'failed'
      readonly code: ErrorCode
      readonly message: string
      readonly hint: string | undefined
      readonly cause: string | undefined
    }

/** Weights in fp16 become fp32 in memory, and the library may add a packed copy of them. */
const memoryPerFileByte = 4

const worker = fileURLToPath(new URL('dist/core/model/engine/self-test-worker.js', projectRoot))

/**
 * Runs the self-tests of a bundle's parts in a process of its own, which is killed at the end, at the time limit, or when the
 * signal is aborted. A graph from elsewhere may compute for hours or crash, and the library cannot be interrupted.
 * @throws BrimError BUNDLE_INVALID also for a bundle that exceeds the time limit or crashes the process, OUT_OF_MEMORY, and
 * as `testPart`; the signal's reason
 */
export async function testBundle(
  folder: string,
  manifest: Manifest,
  parts: readonly PartName[],
  { threads, library, limits, signal }: SelfTestOptions,
): Promise<PartTest[]> {
  signal.throwIfAborted()
  const fileBytes = filesOf(manifest, parts).reduce((sum, { bytes }) => sum + bytes, 0)
  const memoryBytes = limits.probeMemoryBytes + memoryPerFileByte * fileBytes
  // If this process is killed and the other one is too busy to notice, the kernel ends it: all its threads share this time.
  const cpuS = limits.probeTimeoutS * (threads + 2)
  const child = fork(worker, { execArgv: [], serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const timeout = AbortSignal.timeout(limits.probeTimeoutS * 1_000)
  let testing: string = parts[0] ?? 'manifest'
  try {
    child.send({ folder, parts, threads, library, limits: { cpuS, memoryBytes } } satisfies SelfTestRequest)
    const onTesting = (part: PartName) => {
      testing = part
    }
    return await testsOf(child, AbortSignal.any([signal, timeout]), onTesting)
  } catch (error) {
    signal.throwIfAborted()
    if (!timeout.aborted) throw error
    throw new BrimError('BUNDLE_INVALID', `the self-test of part ${testing} did not end within ${limits.probeTimeoutS} s`, {
      hint: 'raise the time limit (agent: --limit probeTimeoutS, model verify: --timeout) if the bundle is from a source you trust',
    })
  } finally {
    child.kill('SIGKILL')
  }
}

/** Collects the results until the process is done, fails or ends. @throws the signal's reason */
function testsOf(child: ChildProcess, signal: AbortSignal, onTesting: (part: PartName) => void): Promise<PartTest[]> {
  const tests: PartTest[] = []
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    child.on('message', (reply: SelfTestReply) => {
      if (reply.kind === 'testing') onTesting(reply.part)
      else if (reply.kind === 'tested') tests.push(reply.test)
      else if (reply.kind === 'done') resolve(tests)
      else reject(errorOf(reply))
    })
    child.on('error', (cause) =>
      reject(new BrimError('RUNTIME_FAILED', 'the process of the self-test cannot be started', { cause })),
    )
    child.once('exit', (code, by) => reject(by === null ? exitedWith(code) : diedOf(by)))
  })
}

function errorOf({ code, message, hint, cause }: Extract<SelfTestReply, { kind: 'failed' }>): BrimError {
  return new BrimError(code, message, { hint, ...(cause === undefined ? {} : { cause: new Error(cause) }) })
}

/** A wrong bundle is reported before the end, so this says nothing about the bundle. */
const exitedWith = (code: number | null) =>
  new BrimError('RUNTIME_FAILED', `the process of the self-test ended early with exit code ${code}`, {
    hint: 'run "brim doctor" on this machine',
  })

/** The JavaScript engine and the library abort when memory runs out; the kernel kills. */
const outOfMemory: ReadonlySet<NodeJS.Signals> = new Set(['SIGABRT', 'SIGTRAP', 'SIGKILL'])
/** systemd and terminals send them to every process of a program that is to stop. */
const stopSignals: ReadonlySet<NodeJS.Signals> = new Set(['SIGHUP', 'SIGINT', 'SIGTERM'])

function diedOf(by: NodeJS.Signals): BrimError {
  if (stopSignals.has(by))
    return new BrimError('RUNTIME_FAILED', `the self-test was stopped (${by}), which says nothing about the bundle`, {
      hint: 'try again',
    })
  if (outOfMemory.has(by))
    return new BrimError('OUT_OF_MEMORY', `memory ran out during the self-test (${by})`, {
      hint: 'use a smaller bundle, or raise the memory limit (agent: --limit probeMemoryBytes, model verify: --memory)',
    })
  return new BrimError('BUNDLE_INVALID', `the self-test crashed (${by})`, {
    hint: 'build the bundle again, or try another ONNX Runtime (ORT_LIB)',
  })
}
