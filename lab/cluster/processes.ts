import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { cliProgram, projectRoot } from '../../core/kit/base/version.ts'
import { pinnedTo } from './cores.ts'
import { endingWithParent } from './ending-with-parent.ts'

/** `agent run` and `bridge run` with options for baselines and for the pace of other machines. */
export const laboratoryProgram = fileURLToPath(new URL('dist/lab/baselines/program.js', projectRoot))

/** A running `brim … --json` process. */
export interface BrimProcess {
  /** The line {event: 'ready', …} that it printed. */
  readonly ready: Record<string, unknown>
  readonly pid: number
  /** Ctrl-C, which waits for no answer or job, and SIGKILL 10 s later; resolves when the process has ended. */
  stop(): Promise<void>
  /** SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>
}

interface StartOptions {
  /** The environment of the process, for example Io.env. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal?: AbortSignal
  /** The only core that the process may run on; see cores.ts. */
  readonly core?: number | undefined
  /** `dist/brim.js` of another installation; absent: of this one. */
  readonly program?: string | undefined
}

/** Time limit for the line {event: 'ready'}. */
const readyWithinMs = 60_000
const killAfterMs = 10_000
const maxOutputBytes = 2 ** 28
/** Lines of stderr that an error message can quote. */
const quotedLines = 3

/**
 * Starts `brim <args> --json` and waits for its line {event: 'ready'}.
 * @throws BrimError RUNTIME_FAILED when that line does not come, with the end of the process's stderr as the cause
 */
export async function startBrim(args: readonly string[], options: StartOptions): Promise<BrimProcess> {
  options.signal?.throwIfAborted()
  // Where `endingWithParent` has no effect, the process stops when its stdin closes: it cannot outlive this one.
  const env = { ...options.env, BRIM_STOP_WITH_STDIN: '1' }
  const command = [
    ...endingWithParent(),
    ...(options.core === undefined ? [] : pinnedTo(options.core)),
    process.execPath,
    options.program ?? cliProgram,
    ...args,
    '--json',
  ]
  const child = spawn(command[0]!, command.slice(1), { stdio: ['pipe', 'pipe', 'pipe'], env })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const end = async (signal: 'SIGINT' | 'SIGKILL') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
    await ended
    clearTimeout(timer)
  }
  try {
    const ready = await readyLine(child, `brim ${args.slice(0, 2).join(' ')}`, options.signal)
    return { ready, pid: child.pid ?? 0, stop: () => end('SIGINT'), kill: () => end('SIGKILL') }
  } catch (error) {
    await end('SIGINT')
    throw error
  }
}

/** Runs a command of this program to its end. @returns its stdout */
export async function brimOutput(words: readonly string[], { env, signal }: Pick<Io, 'env' | 'signal'>): Promise<string> {
  const options = { env: { ...env, BRIM_STOP_WITH_STDIN: '1' }, signal, maxBuffer: maxOutputBytes }
  return (await promisify(execFile)(process.execPath, [cliProgram, ...words], options)).stdout
}

function readyLine(child: ChildProcess, name: string, signal: AbortSignal | undefined): Promise<Record<string, unknown>> {
  const lastLines: string[] = []
  createInterface({ input: child.stderr! }).on('line', (line) => {
    lastLines.push(line)
    if (lastLines.length > quotedLines) lastLines.shift()
  })
  return new Promise((resolve, reject) => {
    const settle = (settleIt: () => void) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      settleIt()
    }
    const fail = (message: string) =>
      settle(() => reject(new BrimError('RUNTIME_FAILED', message, { cause: new Error(lastLines.join('\n')) })))
    const timer = setTimeout(() => fail(`${name} was not ready within ${readyWithinMs / 1_000} s`), readyWithinMs)
    const abort = () => settle(() => reject(signal?.reason))
    signal?.addEventListener('abort', abort, { once: true })
    child.once('error', (error) => lastLines.push(error.message))
    child.once('close', () => fail(`${name} ended before it was ready`))
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const event = parseObject(line)
      if (event?.event === 'ready') settle(() => resolve(event))
    })
  })
}

function parseObject(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
