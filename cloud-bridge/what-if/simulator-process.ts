import { spawn } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import { createInterface } from 'node:readline'
import { BrimError, type ErrorCode, errorCodes } from '../../core/kit/base/errors.ts'
import { cliProgram } from '../../core/kit/base/version.ts'
import type { WhatIfEvent } from '../../core/wire/protocol/http/what-if.ts'

/** Of one command of the simulator. */
const maxMs = 10 * 60_000
const maxHeapMib = 1_024
const maxOutputChars = 8 * 2 ** 20

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
 * @throws BrimError as the command; RUNTIME_FAILED where the process was killed; the signal's reason
 */
export async function simulate(words: readonly string[], { cwd, signal, onProgress }: SimulatorOptions): Promise<string> {
  signal.throwIfAborted()
  const args = [`--max-old-space-size=${maxHeapMib}`, cliProgram, 'simulate', ...words, '--json']
  const child = spawn(process.execPath, args, { cwd, env: { BRIM_STOP_WITH_STDIN: '1' }, timeout: maxMs, killSignal: 'SIGKILL' })
  const kill = () => child.kill('SIGKILL')
  signal.addEventListener('abort', kill)
  child.once('spawn', () => {
    try {
      setPriority(child.pid!, constants.priority.PRIORITY_LOW)
    } catch {
      // It has ended already.
    }
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    if (output.length > maxOutputChars) kill()
  })
  let lastLine = ''
  createInterface({ input: child.stderr }).on('line', (line) => {
    lastLine = line
    const [, percent, what] = /^(\d+) % (.+)$/.exec(line) ?? []
    if (what !== undefined) onProgress({ what, percent: Number(percent) })
  })
  try {
    const [code, killed] = await new Promise<[number | null, string | null]>((resolve, reject) =>
      child.once('error', reject).once('close', (...how) => resolve(how)),
    )
    signal.throwIfAborted()
    if (code !== 0) throw failureOf(lastLine, killed ?? `code ${code}`)
    return output
  } finally {
    signal.removeEventListener('abort', kill)
  }
}

/** @param line its last one, as `--json` has commands end @param how it ended otherwise */
function failureOf(line: string, how: string): BrimError {
  try {
    const { code, message, hint } = (JSON.parse(line) as { error: { code: ErrorCode; message: string; hint?: string } }).error
    if (Object.hasOwn(errorCodes, code)) return new BrimError(code, message, { hint })
  } catch {
    // It was killed, or has crashed.
  }
  return new BrimError('RUNTIME_FAILED', `the simulator has ended with ${how}`, {
    hint: `it may take ${maxMs / 60_000} minutes and ${maxHeapMib} MiB: simulate fewer devices`,
  })
}
