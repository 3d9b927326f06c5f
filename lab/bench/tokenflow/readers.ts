import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { playInTime } from '../in-time.ts'
import { type FlowSample, spreadOver } from './timeline.ts'
import type { FlowRequest } from './workload.ts'

export interface FlowPrompt extends FlowRequest {
  readonly ids: readonly number[]
}

/**
 * Sends the requests as they arrive, each from a client of its own, whether or not earlier ones are answered. The clients take
 * what their sockets hold at once; the figures follow the readers at their rates.
 */
export const askAll = (httpUrl: string, prompts: readonly FlowPrompt[], signal: AbortSignal): Promise<FlowSample[]> =>
  playInTime(prompts, signal, (prompt, atMs, nth) => ask(httpUrl, prompt, `reader ${nth}`, atMs, signal))

async function ask(url: string, prompt: FlowPrompt, user: string, atMs: number, signal: AbortSignal): Promise<FlowSample> {
  const { ids, answerTokens, promptTokens, tokensPerS } = prompt
  const sentMs = systemClock.nowMs()
  const piecesMs: number[] = []
  const body = {
    prompt: [...ids],
    max_tokens: answerTokens,
    ignore_eos: true,
    temperature: 0,
    user,
    brim: { tokens_per_s: tokensPerS },
  }
  const sample = { atMs: Math.round(atMs), promptTokens, tokensPerS }
  try {
    const { usage } = await streamAnswerFrom({ server: 'bridge', url }, body, signal, {
      onText: () => piecesMs.push(Math.round(systemClock.nowMs() - sentMs)),
    })
    return { ...sample, arrivedMs: spreadOver(piecesMs, usage?.completion_tokens ?? piecesMs.length), error: null }
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof BrimError)) throw error
    return { ...sample, arrivedMs: piecesMs, error: `${error.message} [${error.code}]` }
  }
}
