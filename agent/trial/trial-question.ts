import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'

/**
 * Asks a probe.
 * @param endpoint undefined: the device has no model
 * @returns why there is no answer; undefined: there is one
 * @throws the signal's reason when aborted
 */
export async function answerProblem(
  endpoint: Endpoint | undefined,
  probe: TrialQuestion,
  timeoutS: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (!endpoint) return 'no model answers the probe'
  const stop = new AbortController()
  try {
    const answered = hasAnswer(endpoint, probe, AbortSignal.any([signal, stop.signal]))
    if (await withTimeout(timeoutS * 1_000, answered, clock, signal))
      return (await answered) ? undefined : 'the answer to the probe is empty'
    // Its end is a failure by now.
    answered.catch(() => {})
    return `the probe was not answered within ${timeoutS} s`
  } catch (error) {
    signal.throwIfAborted()
    return `the probe was not answered: ${error instanceof Error ? error.message : String(error)}`
  } finally {
    stop.abort()
  }
}

async function hasAnswer(endpoint: Endpoint, { prompt, maxTokens }: TrialQuestion, signal: AbortSignal): Promise<boolean> {
  const request = {
    prompt: new Prompt({ kind: 'text', text: prompt }),
    maxTokens,
    sampling: { temperature: 0, topP: 1, topK: 0, seed: 1 },
    stop: [],
    client: 'brim-probe',
  }
  let size = 0
  for await (const delta of endpoint.answer(request, signal)) size += 'text' in delta ? delta.text.length : delta.tokens.length
  return size > 0
}
