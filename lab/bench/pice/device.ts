import type { BridgeClient } from '../../../cloud-bridge/commands/bridge-client.ts'
import type { ChatMessage } from '../../../core/model/text/chat-message.ts'
import { Expansion } from '../../../core/wire/protocol/expansion.ts'
import { jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import type { SketchInput } from '../../../core/wire/protocol/jobs.ts'
import { sum } from '../../frame/statistics.ts'
import { endOf } from './asking.ts'
import type { DeviceFigures } from './runs.ts'

export const sketchSentences = 10

/** Ten sentences in one job, and in a job for each. @param sketch ten lines */
export async function measureDevice(
  client: BridgeClient,
  device: string,
  { messages, sketch }: { readonly messages: readonly ChatMessage[]; readonly sketch: readonly string[] },
): Promise<DeviceFigures> {
  const asked = { messages: messages.map(({ role, content }) => ({ role: role as 'user', content: content ?? '' })), sketch }
  const expand = (input: object) => runsOf(client, device, { ...asked, expectedTokens: 20 * sketchSentences, ...input })
  const parallel = await expand({})
  const alone = []
  for (const sentence of sketch.keys()) alone.push(...(await expand({ sentences: [sentence] })))
  const total = (runs: Expansion['runs'], what: 'promptTokens' | 'prefilledTokens' | 'groups' | 'tookMs' | 'tokens') =>
    sum(runs.map((run) => run[what]))
  return {
    promptTokens: total(parallel, 'promptTokens'),
    prefilledTokens: total(parallel, 'prefilledTokens'),
    groups: total(parallel, 'groups'),
    parallelMs: total(parallel, 'tookMs'),
    parallelTokens: total(parallel, 'tokens'),
    sequentialMs: total(alone, 'tookMs'),
    sequentialTokens: total(alone, 'tokens'),
  }
}

async function runsOf(client: BridgeClient, device: string, sketch: object): Promise<Expansion['runs']> {
  const body = { kind: 'pice.expand' as const, device, input: { sketches: [sketch as SketchInput] } }
  const { value } = await client.call(jobOperations.submit, { body })
  if (!('id' in value)) throw new Error('one job was submitted, a batch is in the response')
  return Expansion.parse((await endOf(client, value.id)).result).runs
}

const functionWords = new Set(
  'a an and are as at be been but by for from had has have he her him his i if in into is it its me my not of on or our she so that the their them then there they this to up was we were what when which who will with you your'.split(
    ' ',
  ),
)

/** Key words of a text's sentences, ten lines: the first ones again where the text has fewer. */
export function keywordSketch(text: string): string[] {
  const sentences = text.split(/(?<=[.!?])\s+/).flatMap((sentence) => {
    const words = sentence.match(/[\p{L}\p{N}']+/gu) ?? []
    const key = words.filter((word) => !functionWords.has(word.toLowerCase())).slice(0, 6)
    return key.length > 0 ? [key.join(' ')] : []
  })
  const lines = sentences.length > 0 ? sentences : ['once upon a time']
  return Array.from({ length: sketchSentences }, (_, i) => lines[i % lines.length]!)
}
