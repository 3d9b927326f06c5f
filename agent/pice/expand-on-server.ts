import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { expandInstruction, expandNextInstruction, type PicePrompts, withInstruction } from '../../core/answer/sketch/prompts.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import { jobClient } from '../jobs/generate.ts'
import type { ExpandOptions, ExpansionCost, GroupWork, SketchWork } from './expansion-work.ts'
import { runAll } from './run-all.ts'
import { lineOf } from './sketch-prompts.ts'

/**
 * Expands sketches on a server of OpenAI's API, one request for each line, groups in parallel. What the server computes only once
 * is not known here.
 * @throws BrimError as the endpoint
 */
export async function expandOnServer(
  endpoint: Endpoint,
  prompts: PicePrompts,
  sketches: readonly SketchWork[],
  { maxSequences, onSentence, signal }: ExpandOptions,
): Promise<ExpansionCost> {
  const stop = new AbortController()
  const stopping = AbortSignal.any([signal, stop.signal])
  let promptTokens = 0

  async function write(chat: readonly ChatMessage[], maxTokens: number, { sampling }: GroupWork) {
    const prompt = new Prompt({ kind: 'chat', messages: chat })
    const written = { reply: '', tokens: 0, isCut: false }
    const logprobs: number[] = []
    for await (const delta of endpoint.answer({ prompt, maxTokens, sampling, stop: [], client: jobClient }, stopping)) {
      if (!('text' in delta)) throw new Error('a server answered in tokens')
      written.reply += delta.text
      written.tokens += delta.tokenCount
      written.isCut ||= delta.end === 'length'
      if (delta.logprobs) for (const logprob of delta.logprobs) logprobs.push(logprob)
      promptTokens += delta.promptTokens ?? 0
    }
    return { ...written, meanLog2Probability: meanLog2(logprobs) }
  }

  async function expandGroup({ work, group }: { work: SketchWork; group: GroupWork }): Promise<void> {
    const { query, lines, lengths } = work
    let chat: readonly ChatMessage[] | undefined
    for (const sentence of group.sentences) {
      chat = chat
        ? [...chat, { role: 'user', content: expandNextInstruction(prompts, lineOf(work, sentence)) }]
        : withInstruction(query, expandInstruction(prompts, lines, lineOf(work, sentence)))
      const written = await write(chat, lengths[sentence]!.max, group)
      chat = [...chat, { role: 'assistant', content: written.reply }]
      onSentence({ sketch: work.sketch, sentence, candidate: group.candidate, ...written })
    }
  }

  const groups = sketches.flatMap((work) => work.groups.map((group) => ({ work, group })))
  await runAll(groups, maxSequences, expandGroup, () => stop.abort())
  return { parallel: Math.min(maxSequences, Math.max(1, groups.length)), promptTokens, prefilledTokens: promptTokens }
}

/** Null: the server gives no probabilities, so this term of Eq. 3 is left out. */
function meanLog2(logprobs: readonly number[]): number | null {
  if (logprobs.length === 0) return null
  return logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length / Math.LN2
}
