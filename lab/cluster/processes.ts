import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../core/base/errors.ts'
import { projectRoot } from '../../core/base/version.ts'
import { pinnedTo } from './cores.ts'

const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))

/** A `brim … --json` process that says when it is ready. */
export interface BrimProcess {
  /** The `ready` line. */
  readonly ready: Record<string, unknown>
  readonly pid: number
  /** Resolves once the process has ended, asked politely first. */
  stop(): Promise<void>
}

export interface StartOptions {
  /** The environment that the process is given, e.g. Io.env. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly readyWithinMs?: number
  readonly signal?: AbortSignal
  /** The only core that it may run on, where lab/cores.ts says that this can be had. */
  readonly core?: number | undefined
}

/**
 * Starts `brim <args> --json` as a process of its own and waits for its line {event:'ready'}.
 * @throws BrimError of the child's own code where it printed one, else RUNTIME_FAILED
 */
export async function startBrim(args: readonly string[], options: StartOptions): Promise<BrimProcess> {
  // Our end of its stdin closes when we die, however we die; it then stops by itself.
  const env = { ...options.env, BRIM_STOP_WITH_STDIN: '1' }
  const command = [...(options.core === undefined ? [] : pinnedTo(options.core)), process.execPath, cli, ...args, '--json']
  const child = spawn(command[0]!, command.slice(1), { stdio: ['pipe', 'pipe', 'pipe'], env })
  const complaints: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => {
    complaints.push(line)
    if (complaints.length > 50) complaints.shift()
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  try {
    const ready = await firstReadyLine(child, ended, complaints, args, options)
    return { ready, pid: child.pid ?? 0, stop: () => stop(child, ended) }
  } catch (error) {
    await stop(child, ended)
    throw error
  }
}

function firstReadyLine(
  child: ChildProcess,
  ended: Promise<void>,
  complaints: string[],
  args: readonly string[],
  options: StartOptions,
) {
  const what = `brim ${args.slice(0, 2).join(' ')}`
  return new Promise<Record<string, unknown>>((resolve, reject) => {
    const readyWithinMs = options.readyWithinMs ?? 60_000
    const timer = setTimeout(
      () => reject(new BrimError('RUNTIME_FAILED', `${what} was not ready within ${readyWithinMs / 1000} s`)),
      readyWithinMs,
    )
    const abort = () => reject(options.signal?.reason)
    options.signal?.addEventListener('abort', abort, { once: true })
    void ended.then(() => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', abort)
      reject(
        new BrimError('RUNTIME_FAILED', `${what} ended before it was ready`, {
          cause: new Error(complaints.slice(-3).join('\n')),
        }),
      )
    })
    if (!child.stdout) throw new Error('stdout is a pipe')
    createInterface({ input: child.stdout }).on('line', (line) => {
      const event = parse(line)
      if (event?.event !== 'ready') return
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', abort)
      resolve(event)
    })
  })
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return ended
  child.kill('SIGTERM')
  const impatience = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await ended
  clearTimeout(impatience)
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
