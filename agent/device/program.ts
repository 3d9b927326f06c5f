import type { Clock } from '../../core/base/clock.ts'
import type { Host, ProgramOptions } from './host.ts'

/** A program that is missing, fails or hangs is left alone for so long. */
const retryMs = 5 * 60_000

export interface ProgramPlan extends Omit<ProgramOptions, 'signal'> {
  readonly program: string
  readonly args: readonly string[]
  /** What it said is good for so long: a process costs far more than a file. */
  readonly everyMs: number
}

/** Asks a program no more often than its answer is worth. */
export function occasionally(host: Host, clock: Clock, plan: ProgramPlan): (signal: AbortSignal) => Promise<string | undefined> {
  let last: { readonly said: string | undefined; readonly untilMs: number } | undefined
  return async (signal) => {
    if (last && clock.nowMs() < last.untilMs) return last.said
    const { program, args, everyMs, ...limits } = plan
    const said = await host.run(program, args, { ...limits, signal })
    last = { said, untilMs: clock.nowMs() + (said === undefined ? retryMs : everyMs) }
    return said
  }
}
