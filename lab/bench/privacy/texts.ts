import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { readPrompts } from '../../../core/model/text/prompt-file.ts'
import { heldOutPrompts } from '../prompts.ts'
import { shuffled } from '../shuffled.ts'

/** What is attacked, and what the attacker and the checks of quality read. */
export interface Texts {
  readonly prompts: readonly (readonly number[])[]
  /** Prompts as long as they are, of which an observer tells the answers apart. */
  readonly asked: readonly (readonly number[])[]
  readonly training: readonly (readonly number[])[]
  /** Prompts with the answers that people gave. */
  readonly dialogues: readonly { readonly ids: readonly number[]; readonly from: number }[]
  readonly decode: (ids: readonly number[]) => string
}

export interface TextsPlan {
  /** Attacked prompts, and texts that the attacker without weights learns from. */
  readonly prompts: number
  readonly training: number
  readonly promptTokens: number
}

/** Tokens of prompts that an observer tells apart. */
const longestAsked = 400

/** Real texts for the demonstration model; for one with random weights, random tokens. */
export async function textsFor(model: LoadedModel, bundle: string, kind: 'read' | 'random', plan: TextsPlan): Promise<Texts> {
  const random = seededRandom(5)
  if (kind === 'random') {
    const { vocab } = model.manifest.dims
    const text = () => [1, ...Array.from({ length: plan.promptTokens - 1 }, () => Math.floor(random.next() * vocab))]
    const of = (count: number) => Array.from({ length: count }, text)
    return { prompts: of(plan.prompts), asked: [], training: of(plan.training), dialogues: [], decode: (ids) => ids.join(' ') }
  }
  const text = await loadTextModel(bundle, model.manifest)
  const all = await readPrompts(heldOutPrompts.file, { ...text, check() {} })
  const tasks = [...new Set(all.map(({ task }) => task))]
  // The attacker learns from other tasks than those that are attacked.
  const learnt = new Set(tasks.filter((_, at) => at % 2 === 0))
  const cut = (ids: readonly number[]) => ids.slice(0, plan.promptTokens)
  const others = shuffled(
    all.filter(({ task }) => !learnt.has(task)),
    random,
  )
  const attacked = others.slice(0, plan.prompts)
  return {
    prompts: attacked.map(({ ids }) => cut(ids)),
    asked: others.map(({ ids }) => ids.slice(0, longestAsked)),
    training: shuffled(
      all.filter(({ task }) => learnt.has(task)),
      random,
    )
      .slice(0, plan.training)
      .map(({ ids, answerIds = [] }) => [...ids, ...answerIds].slice(0, 4 * plan.promptTokens)),
    dialogues: attacked.flatMap(({ ids, answerIds = [] }) =>
      answerIds.length > 0 ? [{ ids: [...ids, ...answerIds], from: ids.length }] : [],
    ),
    decode: (ids) => text.tokenizer.decode([...ids]),
  }
}
