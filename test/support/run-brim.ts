import { run } from '../../brim.ts'
import type { ExitCode } from '../../core/kit/base/errors.ts'
import { type CaptureOptions, captureIo } from './captured-io.ts'

export interface CommandResult {
  readonly code: ExitCode
  readonly out: string
  readonly err: string
}

/** Runs a command; its error is printed, as in a terminal. */
export async function runBrim(words: readonly string[], options: CaptureOptions = {}): Promise<CommandResult> {
  const { io, out, err } = captureIo(options)
  const code = await run(words, io)
  return { code, out: out(), err: err() }
}
