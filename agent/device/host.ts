import { spawn } from 'node:child_process'
import { readdir, readFile } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

// Those of node:fs/promises cost a third more CPU for a sample of small files.
const readText = promisify(readFile)
const readNames = promisify(readdir)

/** More than this no program that we ask says. */
const mostOutputBytes = 64 * 1024

export interface ProgramOptions {
  readonly timeoutMs: number
  /** One line is enough: programs like tegrastats never end by themselves. */
  readonly firstLine?: boolean
  readonly signal: AbortSignal
}

/** What the kernel and a few programs say of this machine. Nothing here throws: what cannot be had is undefined or empty. */
export interface Host {
  /** Text of a file below the root: absolute, as the kernel calls it. */
  text(path: string): Promise<string | undefined>
  /** A file's one number; undefined where it is none. */
  number(path: string): Promise<number | undefined>
  /** Names in a folder, sorted. */
  list(path: string): Promise<string[]>
  /** @returns what it wrote to stdout; undefined where it is missing, failed or took too long */
  run(program: string, args: readonly string[], options: ProgramOptions): Promise<string | undefined>
}

export type RunProgram = Host['run']

/** @param root '/' but in tests @param run starts programs */
export function openHost(root = '/', run: RunProgram = runProgram): Host {
  const text = (path: string) => readText(join(root, path), 'utf8').catch(() => undefined)
  return {
    text,
    async number(path) {
      const said = (await text(path))?.trim()
      const value = said === undefined || said === '' ? Number.NaN : Number(said)
      return Number.isFinite(value) ? value : undefined
    },
    list: async (path) => (await readNames(join(root, path)).catch(() => [])).sort(),
    run,
  }
}

/** Whatever it does, it is gone after the timeout. */
export function runProgram(
  program: string,
  args: readonly string[],
  { timeoutMs, firstLine = false, signal }: ProgramOptions,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(program, [...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
      signal,
    })
    let output = ''
    let isEnough = false
    const enough = () => {
      isEnough = true
      child.kill('SIGKILL')
    }
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      output += piece
      if ((firstLine && output.includes('\n')) || output.length > mostOutputBytes) enough()
    })
    child.once('error', () => resolve(undefined))
    // What it has started itself may hold the pipe open after it.
    child.once('exit', (_, killedBy) => killedBy !== null && child.stdout.destroy())
    child.once('close', (code) => {
      if (code !== 0 && !isEnough) return resolve(undefined)
      resolve(firstLine ? output.split('\n')[0] : output)
    })
  })
}
