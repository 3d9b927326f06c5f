import { join } from 'node:path'
import { systemClock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { quantile } from '../../core/base/statistics.ts'
import { generate } from '../../core/engine/generate.ts'
import { openBundle } from '../../core/engine/open-bundle.ts'
import { compareWithReference } from '../../core/engine/reference.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import { tokenizerFolder } from '../../core/model/manifest.ts'
import { readSse } from '../../core/openai/sse-reader.ts'
import { loadChatTemplate } from '../../core/text/chat-template.ts'
import { loadTokenizer } from '../../core/text/tokenizer.ts'

export interface Question {
  readonly device: string
  readonly prompt: string
  readonly maxTokens: number
}

/** One answer with its figures, as `scripts/demo --json` prints it. */
export interface Answer {
  readonly device: string
  readonly mode: 'hat' | 'whole'
  readonly prompt: string
  readonly text: string
  readonly tokens: number
  readonly ttftMs: number
  readonly tbtMs: { readonly p50: number; readonly p95: number }
  /** Tokens per verification, bonus included; null for the whole model, which verifies nothing. */
  readonly acceptLength: number | null
  /** Times that the device waited for the bridge: once for the prompt, once per verification. */
  readonly roundTrips: number
  /** The tokens are those of the reference (core/engine/reference.ts). */
  readonly identical: boolean
  /** Tokens where rounding alone decided between the reference's two likeliest. */
  readonly nearTies: number
  readonly bytesUp: number
  readonly bytesDown: number
}

/** Not yet held against the reference. */
export type Unchecked = Omit<Answer, 'identical' | 'nearTies'> & { readonly tokenIds: readonly number[] }

/** The whole model in this process: the measure of the answers, and the comparison. */
export interface Reference {
  promptIds(prompt: string): number[]
  check(prompt: string, tokenIds: readonly number[]): Promise<{ identical: boolean; nearTies: number }>
  answer(question: Question, onText: (text: string) => void, signal: AbortSignal): Promise<Unchecked>
  release(): Promise<void>
}

const greedy: Sampling = { temperature: 0, topK: 0, topP: 1, seed: 0 }

export async function openReference(bundle: string, library: string | undefined): Promise<Reference> {
  const folder = join(bundle, tokenizerFolder)
  const tokenizer = await loadTokenizer(folder)
  const template = await loadChatTemplate(folder)
  const model = await openBundle(bundle, { library, parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  const promptIds = (prompt: string) =>
    template
      ? tokenizer.encode(template.render([{ role: 'user', content: prompt }]), { addSpecialTokens: false })
      : tokenizer.encode(prompt)
  return {
    promptIds,
    check: (prompt, tokenIds) => compareWithReference(chain, promptIds(prompt), greedy, tokenIds),
    async answer({ device, prompt, maxTokens }, onText, signal) {
      let text = ''
      let tokenIds: readonly number[] = []
      let ttftMs = Number.NaN
      const gaps: number[] = []
      let lastMs: number | undefined
      const request = { promptIds: promptIds(prompt), maxTokens, sampling: greedy, signal, clock: systemClock }
      for await (const event of generate(chain, tokenizer, request)) {
        if (event.kind === 'end') {
          tokenIds = event.summary.tokenIds
          ttftMs = event.summary.ttftMs ?? Number.NaN
        } else {
          const nowMs = systemClock.nowMs()
          if (lastMs !== undefined) gaps.push(nowMs - lastMs)
          lastMs = nowMs
          text += event.text
          onText(event.text)
        }
      }
      const figures = { tokens: tokenIds.length, ttftMs, tbtMs: { p50: quantile(gaps, 0.5), p95: quantile(gaps, 0.95) } }
      return {
        device,
        mode: 'whole',
        prompt,
        text,
        ...figures,
        acceptLength: null,
        roundTrips: 0,
        bytesUp: 0,
        bytesDown: 0,
        tokenIds,
      }
    },
    release: () => model.release(),
  }
}

/** What the agent tells about an answer, in the last chunk that has choices or usage. */
interface Report {
  ttftMs: number
  tbtMs: { p50: number; p95: number }
  acceptLength: number | null
  rounds: number
  bytesUp: number
  bytesDown: number
  tokenIds: number[]
}

/** Asks a device's own API, as an application on it would, and holds the answer against the reference. */
export async function askByHat(
  question: Question,
  apiUrl: string,
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<Unchecked> {
  const { device, prompt, maxTokens } = question
  const response = await fetch(`${apiUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'brim',
      messages: [{ role: 'user', content: prompt }],
      max_tokens: maxTokens,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
      brim: { token_ids: true },
    }),
    signal,
  })
  if (!response.ok || !response.body)
    throw new BrimError('LINK_LOST', `${device} answered ${response.status}: ${await response.text()}`)
  let text = ''
  let report: Report | undefined
  for await (const data of readSse(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as { choices?: { delta?: { content?: string } }[]; brim?: Report; error?: { message: string } }
    if (chunk.error) throw new BrimError('LINK_LOST', `${device}: ${chunk.error.message}`)
    const piece = chunk.choices?.[0]?.delta?.content ?? ''
    text += piece
    if (piece !== '') onText(piece)
    report = chunk.brim ?? report
  }
  if (!report) throw new BrimError('LINK_LOST', `${device} ended its answer without figures`)
  const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, tokenIds } = report
  return {
    device,
    mode: 'hat',
    prompt,
    text,
    tokens: tokenIds.length,
    ttftMs,
    tbtMs,
    acceptLength,
    roundTrips: rounds + 1,
    bytesUp,
    bytesDown,
    tokenIds,
  }
}
