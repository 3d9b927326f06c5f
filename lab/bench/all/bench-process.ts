import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Io } from '../../../core/kit/base/io.ts'
import { cliProgram } from '../../../core/kit/base/version.ts'

const killAfterMs = 20_000

/**
 * Runs a command of this program to its end, in a process of its own. Ctrl-C interrupts it once, and the end of this process ends
 * it.
 * @param out takes the lines of its stdout; those of its stderr become ours
 * @returns its exit code, null where a signal ended it
 */
export async function runBrim(words: readonly string[], out: (line: string) => void, io: Io): Promise<number | null> {
  // In a process group of its own: a terminal's Ctrl-C would reach it besides ours, and a second one ends it at once.
  const child = spawn(process.execPath, [cliProgram, ...words], {
    env: { ...io.env, BRIM_STOP_WITH_STDIN: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  createInterface({ input: child.stdout }).on('line', out)
  createInterface({ input: child.stderr }).on('line', (line) => io.err(line))
  let timer: NodeJS.Timeout | undefined
  const interrupt = () => {
    child.kill('SIGINT')
    timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  }
  io.signal.addEventListener('abort', interrupt, { once: true })
  if (io.signal.aborted) interrupt()
  try {
    return await ended
  } finally {
    clearTimeout(timer)
    io.signal.removeEventListener('abort', interrupt)
  }
}
