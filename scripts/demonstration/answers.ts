import { join } from 'node:path'
import { systemClock } from '../../core/kit/base/clock.ts'
import { tokenizerFolder } from '../../core/model/bundle/manifest.ts'
import { generate } from '../../core/model/engine/generate.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import { compareWithReference } from '../../core/model/engine/reference.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { loadChatTemplate } from '../../core/model/text/chat-template.ts'
import { loadTokenizer } from '../../core/model/text/tokenizer.ts'
import { quantile } from '../../core/policy/estimate/quantile.ts'
import { askAgent } from '../../lab/cluster/ask-agent.ts'

export interface DemoQuestion {
  readonly device: string
  readonly prompt: string
  readonly maxTokens: number
}

/** One answer with its figures, as `brim demo --json` prints it. */
export interface DemoAnswer {
  readonly device: string
  readonly mode: 'hat' | 'whole'
  readonly prompt: string
  readonly text: string
  readonly tokens: number
  readonly ttftMs: number
  readonly tbtMs: { readonly p50: number | null; readonly p95: number | null }
  /** Tokens per verification, bonus included; null for the whole model, which verifies nothing. */
  readonly acceptLength: number | null
  /** How often the device waited for the bridge: once for the prompt, once per verification. */
  readonly roundTrips: number
  /** The tokens are those of the reference (core/model/engine/reference.ts). */
  readonly identical: boolean
  /** Tokens where only rounding decided between the reference's two most likely ones. */
  readonly nearTies: number
  readonly bytesUp: number
  readonly bytesDown: number
}

/** An answer that was not yet compared with the reference. */
export type Unchecked = Omit<DemoAnswer, 'identical' | 'nearTies'> & { readonly tokenIds: readonly number[] }

/** The whole model in this process: it checks the answers of the devices, and gives one itself. */
export interface Reference extends AsyncDisposable {
  check(prompt: string, tokenIds: readonly number[]): Promise<{ identical: boolean; nearTies: number }>
  answer(question: DemoQuestion, onText: (text: string) => void, signal: AbortSignal): Promise<Unchecked>
}

export async function openReference(bundle: string, library: string | undefined, provider: ProviderWish): Promise<Reference> {
  const folder = join(bundle, tokenizerFolder)
  const tokenizer = await loadTokenizer(folder)
  const template = await loadChatTemplate(folder)
  const model = await openBundle(bundle, { library, provider, parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  const promptIds = (prompt: string) =>
    template
      ? tokenizer.encode(template.render([{ role: 'user', content: prompt }]), { addSpecialTokens: false })
      : tokenizer.encode(prompt)
  return {
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
      const gapAt = (q: number) => (gaps.length === 0 ? null : quantile(gaps, q))
      const tbtMs = { p50: gapAt(0.5), p95: gapAt(0.95) }
      const traffic = { acceptLength: null, roundTrips: 0, bytesUp: 0, bytesDown: 0 }
      return { device, mode: 'whole', prompt, text, tokens: tokenIds.length, ttftMs, tbtMs, ...traffic, tokenIds }
    },
    [Symbol.asyncDispose]: () => model.release(),
  }
}

/** Asks a device's API, as an application on it would. */
export async function askByHat(
  { device, prompt, maxTokens }: DemoQuestion,
  apiUrl: string,
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<Unchecked> {
  const messages = [{ role: 'user', content: prompt }]
  const { text, report } = await askAgent(apiUrl, { messages, max_tokens: maxTokens, temperature: 0 }, signal, onText)
  const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, tokenIds } = report
  const figures = { tokens: tokenIds.length, ttftMs, tbtMs, acceptLength, roundTrips: rounds + 1, bytesUp, bytesDown }
  return { device, mode: 'hat', prompt, text, ...figures, tokenIds }
}
