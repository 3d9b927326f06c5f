import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { megabytes } from '../../kit/base/megabytes.ts'
import { seededRandom } from '../../kit/base/random.ts'
import type { StateCoding } from '../../wire/protocol/state-coding.ts'
import type { States } from '../../wire/protocol/states.ts'
import { readManifest } from '../bundle/bundle.ts'
import { type Manifest, tokenizerFolder } from '../bundle/manifest.ts'
import { openBundle } from '../engine/open-bundle.ts'
import { type ChatTemplate, loadChatTemplate } from '../text/chat-template.ts'
import { loadTokenizer, type TextTokenizer } from '../text/tokenizer.ts'
import { makeTables } from './make-tables.ts'
import { sampleTexts } from './sample-texts.ts'

/** Sequences of tokens at random, beside the texts: for texts in languages and notations that these do not have. */
const randomTexts = { count: 4, tokens: 64 }

/**
 * Measures the states of a split bundle at its cuts, and makes tables for them. It computes some hundreds of tokens on the CPU.
 * @returns undefined where coded rows would not be shorter than fp16
 * @throws BrimError OUT_OF_MEMORY where the model needs more memory than there is; as openBundle; TOKENIZER_INVALID; the signal's reason
 */
export async function codeStates(folder: string, threads: number, signal?: AbortSignal): Promise<StateCoding | undefined> {
  const manifest = await readManifest(folder)
  requireMemory(manifest)
  const textFolder = join(folder, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(textFolder), loadChatTemplate(textFolder)])
  const { vocab, contextLimit } = manifest.dims
  const random = seededRandom(1)
  const texts = [
    ...sampleTexts.map((text) => tokenizer.encode(text)),
    ...(chatTemplate ? chatsOf(tokenizer, chatTemplate) : []),
    ...Array.from({ length: randomTexts.count }, () =>
      Array.from({ length: randomTexts.tokens }, () => Math.floor(random.next() * vocab)),
    ),
  ]
  await using model = await openBundle(folder, { parts: ['input', 'middle'], threads })
  const shallow: States[] = []
  const deep: States[] = []
  for (const ids of texts) {
    signal?.throwIfAborted()
    const [input, middle] = [model.part('input').createSequence(), model.part('middle').createSequence()]
    const select = 'all'
    const [below] = await model.part('input').step([{ sequence: input, ids: ids.slice(0, contextLimit), select }])
    const [above] = await model.part('middle').step([{ sequence: middle, states: below!, select }])
    shallow.push(below!)
    deep.push(above!)
    input.release()
    middle.release()
  }
  const tables = { shallow: makeTables(shallow), deep: makeTables(deep) }
  return tables.shallow && tables.deep && { shallow: tables.shallow, deep: tables.deep }
}

/** The template's tokens, with which every prompt begins, have states of their own. */
function chatsOf(tokenizer: TextTokenizer, { render }: ChatTemplate): number[][] {
  return sampleTexts.map((text, at) => {
    const asked = { role: 'user', content: text }
    const before =
      at % 2 === 0
        ? []
        : [
            { role: 'user', content: sampleTexts[at - 1]! },
            { role: 'assistant', content: text },
          ]
    return tokenizer.encode(render([...before, asked]), { addSpecialTokens: false })
  })
}

/** fp16 weights are fp32 in memory, and beside quantised ones the library keeps sums. */
function requireMemory({ parts }: Manifest): void {
  const weights = [parts.input, parts.middle].flatMap((part) => part?.weights ?? [])
  const needed = 2 * weights.reduce((sum, { bytes }) => sum + bytes, 0)
  const free = process.availableMemory()
  if (needed <= free) return
  throw new BrimError('OUT_OF_MEMORY', `the model needs ${megabytes(needed)} of memory, and ${megabytes(free)} are free`)
}
