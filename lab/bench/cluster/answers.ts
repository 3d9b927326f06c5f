import { systemClock } from '../../../core/kit/base/clock.ts'
import { askAgent } from '../../cluster/ask-agent.ts'
import type { Fault } from './asked.ts'

/** An answer that a device and the bridge have made together. */
export interface AnswerRun {
  readonly what: 'answer'
  /** Why it has failed, or that its tokens differ from those of the same question undisturbed; null: neither. */
  readonly broken: string | null
  /** How often its session went on at another process. */
  readonly moves: number
  /** Longest time without text that ended after a fault; null: none began during the answer. */
  readonly stallS: number | null
}

/** One is greedy. */
const questions = Array.from({ length: 2 }, (_, at) => ({
  prompt: `Question ${at + 1}: what does a lamp do at night?`,
  temperature: at % 2 === 0 ? 0 : 0.8,
  seed: at,
  max_tokens: 48,
  ignore_eos: true,
}))

export type Expected = readonly (readonly number[])[]

/** Their tokens while nothing disturbs them. @throws BrimError LINK_LOST */
export async function undisturbed(apiUrl: string, signal: AbortSignal): Promise<Expected> {
  return Promise.all(questions.map(async (question) => (await askAgent(apiUrl, question, signal)).report.tokenIds))
}

/**
 * One answer after the other at each device, until `stop`; those that have begun are awaited.
 * @param apiUrls of the devices
 * @param faults those that have begun so far
 */
export async function answerUntil(
  stop: AbortSignal,
  apiUrls: readonly string[],
  expected: Expected,
  faults: readonly Fault[],
  signal: AbortSignal,
): Promise<AnswerRun[]> {
  const runs: AnswerRun[] = []
  const answer = async (apiUrl: string) => {
    for (let at = 0; !stop.aborted; at++) {
      const which = at % questions.length
      const askedMs = systemClock.nowMs()
      // A new user each time: none begins with the KV of one before.
      const asked = askAgent(apiUrl, { ...questions[which]!, user: `answer ${at}` }, signal)
      const { outcome, arrivedMs } = await asked.then(
        ({ report, arrivedMs }) => ({
          arrivedMs,
          outcome: {
            moves: report.failovers,
            broken: report.tokenIds.join() === expected[which]!.join() ? null : 'other tokens',
          },
        }),
        (error: unknown) => ({ arrivedMs: [], outcome: { moves: 0, broken: String(error) } }),
      )
      const times = [askedMs, ...arrivedMs, ...(arrivedMs.length === 0 ? [systemClock.nowMs()] : [])]
      runs.push({ what: 'answer', ...outcome, stallS: longestGapS(times, faults) })
    }
  }
  await Promise.all(apiUrls.map(answer))
  return runs
}

function longestGapS(times: readonly number[], faults: readonly Fault[]): number | null {
  const [first, last] = [times[0]!, times.at(-1)!]
  const during = faults.map(({ atMs }) => atMs).filter((atMs) => atMs > first && atMs < last)
  if (during.length === 0) return null
  const gaps = times.slice(1).flatMap((atMs, at) => (atMs > during[0]! ? [atMs - times[at]!] : []))
  return Math.max(...gaps) / 1_000
}
