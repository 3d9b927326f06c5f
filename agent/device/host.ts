import { spawn } from 'node:child_process'
import { readdir, readFile } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

// The functions of node:fs/promises cost a third more CPU for a sample of small files.
const readText = promisify(readFile)
const readNames = promisify(readdir)

/** Longer output is cut. */
const maxOutputBytes = 64 * 1024

export interface ProgramOptions {
  readonly timeoutMs: number
  /** Stop after the first line: programs such as tegrastats do not end by themselves. */
  readonly firstLine?: boolean
  readonly signal: AbortSignal
}

/** Files and programs of this machine. Nothing here throws: what is not available is undefined or empty. */
export interface Host {
  /** Content of a file. @param path absolute, below the root */
  text(path: string): Promise<string | undefined>
  /** The number in a file; undefined if the file contains anything else. */
  number(path: string): Promise<number | undefined>
  /** Names of the files in a folder, sorted. */
  list(path: string): Promise<string[]>
  /** @returns stdout; undefined if the program is missing, fails or times out */
  run(program: string, args: readonly string[], options: ProgramOptions): Promise<string | undefined>
}

export type RunProgram = Host['run']

/** @param root '/', except in tests @param run runs programs */
export function openHost(root = '/', run: RunProgram = runDeviceTool): Host {
  const text = (path: string) => readText(join(root, path), 'utf8').catch(() => undefined)
  return {
    text,
    async number(path) {
      const content = (await text(path))?.trim()
      const value = content === undefined || content === '' ? Number.NaN : Number(content)
      return Number.isFinite(value) ? value : undefined
    },
    list: async (path) => (await readNames(join(root, path)).catch(() => [])).sort(),
    run,
  }
}

/** The program is killed after the timeout. */
export function runDeviceTool(
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
    let isComplete = false
    const complete = () => {
      isComplete = true
      child.kill('SIGKILL')
    }
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      output += piece
      if ((firstLine && output.includes('\n')) || output.length > maxOutputBytes) complete()
    })
    child.once('error', () => resolve(undefined))
    // A child process of the program may hold the pipe open after its end.
    child.once('exit', (_, killedBy) => killedBy !== null && child.stdout.destroy())
    child.once('close', (code) => {
      if (code !== 0 && !isComplete) return resolve(undefined)
      resolve(firstLine ? output.split('\n')[0] : output)
    })
  })
}
