import type { Clock } from '../../core/kit/base/clock.ts'
import type { Host, ProgramOptions } from './host.ts'

/** Wait before a program that was missing, failed or timed out is run again. */
const retryMs = 5 * 60_000

export interface ProgramPlan extends Omit<ProgramOptions, 'signal'> {
  readonly program: string
  readonly args: readonly string[]
  /** How long its output is used: a process costs far more than reading a file. */
  readonly everyMs: number
}

/** Runs a program at most every `everyMs`, and returns its last output in between. */
export function occasionally(host: Host, clock: Clock, plan: ProgramPlan): (signal: AbortSignal) => Promise<string | undefined> {
  let last: { readonly output: string | undefined; readonly untilMs: number } | undefined
  return async (signal) => {
    if (last && clock.nowMs() < last.untilMs) return last.output
    const { program, args, everyMs, ...limits } = plan
    const output = await host.run(program, args, { ...limits, signal })
    last = { output, untilMs: clock.nowMs() + (output === undefined ? retryMs : everyMs) }
    return output
  }
}
