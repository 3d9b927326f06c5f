import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { BrimError, type ErrorCode, errorCodes } from '../../core/kit/base/errors.ts'
import { cliProgram } from '../../core/kit/base/version.ts'
import type { WhatIfEvent } from '../../core/wire/protocol/http/what-if.ts'

/** Of one command of the simulator. */
const limits = { timeout: 10 * 60_000, maxBuffer: 8 * 2 ** 20 }
const heapMib = 1_024

export interface SimulatorOptions {
  /** Files are named relative to it. */
  readonly cwd: string
  /** Aborted: the process is killed. */
  readonly signal: AbortSignal
  onProgress(progress: NonNullable<WhatIfEvent['progress']>): void
}

/**
 * Runs `brim simulate <words> --json` in a process of low priority, which has no environment, 1 GiB and ten minutes, and
 * ends with this one.
 * @returns its stdout
 * @throws BrimError as the command; RUNTIME_FAILED where the process was killed
 */
export async function simulate(words: readonly string[], { cwd, signal, onProgress }: SimulatorOptions): Promise<string> {
  const args = [`--max-old-space-size=${heapMib}`, cliProgram, 'simulate', ...words, '--json']
  const options = { ...limits, cwd, signal, env: { BRIM_STOP_WITH_STDIN: '1' }, killSignal: 'SIGKILL' } as const
  const running = promisify(execFile)(process.execPath, args, options)
  const { child } = running
  try {
    // The lowest would get nothing done beside a busy bridge.
    setPriority(child.pid!, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It was not started, or a sandbox forbids it.
  }
  createInterface({ input: child.stderr! }).on('line', (line) => {
    const [, percent, what] = /^(\d+) % (.+)$/.exec(line) ?? []
    if (what !== undefined) onProgress({ what, percent: Number(percent) })
  })
  try {
    return (await running).stdout
  } catch (error) {
    // The promise of an aborted one does not wait for its end.
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit')
    throw failureOf(error as EndedBadly)
  }
}

type EndedBadly = Error & { readonly stderr?: string; readonly signal?: string | null; readonly code?: unknown }

/** As `--json` has commands say it, in their last line. */
function failureOf({ stderr = '', signal, code, message }: EndedBadly): BrimError {
  try {
    const { error } = JSON.parse(stderr.trimEnd().split('\n').at(-1)!) as { error: BrimError }
    if (Object.hasOwn(errorCodes, error.code)) return new BrimError(error.code as ErrorCode, error.message, { hint: error.hint })
  } catch {
    // It was killed, or has crashed.
  }
  return new BrimError('RUNTIME_FAILED', `the simulator has ended with ${signal ?? code ?? message}`, {
    hint: `it may take ${limits.timeout / 60_000} minutes and ${heapMib} MiB: simulate fewer devices`,
  })
}
