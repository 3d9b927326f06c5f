import { Socket } from 'node:net'
import { addAbortSignal } from 'node:stream'
import { text } from 'node:stream/consumers'
import { BrimError, type ExitCode, exitCodeOf, exitCodes, toErrorJson, toErrorText } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { keepYoungGenerationSmall } from '../base/small-heap.ts'
import { terminated } from '../base/termination.ts'
import type { Menu } from './command.ts'
import { execute } from './execute.ts'
import { commandWords, withUsefulHint } from './useful-hint.ts'
import { visibleIo } from './visible-io.ts'

/**
 * Runs one command; errors are printed. Results go to `io.out`, all else to `io.err`.
 * @param command of the menu, for its hints
 */
export async function runCommand(
  menu: Menu,
  argv: readonly string[],
  io: Io,
  command: () => Promise<void> = () => execute(menu, argv, io),
): Promise<ExitCode> {
  try {
    await command()
    return exitCodes.ok
  } catch (thrown) {
    // An AbortError only says that it was aborted: the signal has the reason.
    const cause = io.signal.aborted && thrown instanceof Error && thrown.name === 'AbortError' ? io.signal.reason : thrown
    const error = withUsefulHint(cause, await commandWords(menu, argv).catch(() => []))
    visibleIo(io).err(argv.includes('--json') ? JSON.stringify(toErrorJson(error)) : toErrorText(error))
    return exitCodeOf(error)
  }
}

const exitCodeOfSignal = { SIGINT: exitCodes.interrupted, SIGTERM: exitCodes.terminated } as const
type StopSignal = keyof typeof exitCodeOfSignal

/** Time for what a stopped command has left open. */
const maxEndMs = 1_000

/** Ends by the signal itself: process.exit would wait for a thread of the inference library, which may compute for hours. */
function endAtOnce(signal: StopSignal): void {
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

/** The process of a command line: arguments, signals, streams and exit code. */
export async function runProgram(run: (argv: readonly string[], io: Io) => Promise<ExitCode>): Promise<void> {
  const [noun, verb] = process.argv.slice(2)
  // Before the modules of the agent are loaded.
  if (noun === 'agent' && verb === 'run') keepYoungGenerationSmall()
  const stop = new AbortController()
  let ended: StopSignal | undefined
  const end = (signal: StopSignal, reason: BrimError) => () => {
    // A second signal ends the process at once.
    if (ended !== undefined) return endAtOnce(signal)
    ended = signal
    stop.abort(reason)
  }
  const interrupted = new BrimError('CANCELED', 'interrupted')
  process.on('SIGINT', end('SIGINT', interrupted))
  process.on('SIGTERM', end('SIGTERM', terminated))
  // A parent process (demonstration, benchmark) may be killed: its end closes our stdin.
  if (process.env.BRIM_STOP_WITH_STDIN !== undefined) {
    process.stdin.on('end', end('SIGTERM', interrupted)).resume()
    // An open stdin must not keep the process alive.
    if (process.stdin instanceof Socket) process.stdin.unref()
  }
  // A closed pipe (`brim … | head`) is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.failed),
  )
  const code = await run(process.argv.slice(2), {
    out: (text) => process.stdout.write(text.endsWith('\n') ? text : `${text}\n`),
    write: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text.endsWith('\n') ? text : `${text}\n`),
    raw: { out: (text) => process.stdout.write(text), err: (text) => process.stderr.write(text) },
    // A signal also ends the wait for stdin.
    stdin: () => text(addAbortSignal(stop.signal, process.stdin)),
    outIsTty: process.stdout.isTTY === true,
    errIsTty: process.stderr.isTTY === true,
    get outRows() {
      // 0 on terminals without a size.
      return process.stdout.rows || undefined
    },
    env: process.env,
    signal: stop.signal,
  })
  const signal = ended as StopSignal | undefined
  process.exitCode = signal === undefined ? code : exitCodeOfSignal[signal]
  if (signal !== undefined) setTimeout(endAtOnce, maxEndMs, signal).unref()
}
