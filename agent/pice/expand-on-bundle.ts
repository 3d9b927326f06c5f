import { cleanExpansion } from '../../core/answer/sketch/clean-expansion.ts'
import type { PicePrompts } from '../../core/answer/sketch/prompts.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { Sequence } from '../../core/model/engine/contract.ts'
import { log2Probability } from '../../core/model/engine/logprobs.ts'
import { chooseToken, type Sampling } from '../../core/model/engine/sampler.ts'
import { sequenceBytesOf } from '../../core/model/engine/stacked-sequence.ts'
import { coverage, leastCoverage } from '../../core/policy/pice/coverage.ts'
import { fittingSequences } from '../../core/policy/pice/pack-sequences.ts'
import type { LocalModel } from '../slm/local-model.ts'
import type { ExpandOptions, ExpansionCost, SketchWork, WrittenSentence } from './expansion-work.ts'
import { KeyWordBias } from './key-word-bias.ts'
import { runAll } from './run-all.ts'
import { commonLength, type LinePrompt, type SharedPrefix, SketchPrompts } from './sketch-prompts.ts'
import { StepPacker } from './step-packer.ts'

const promptErrors: ReadonlySet<ErrorCode> = new Set(['CONTEXT_OVERFLOW', 'CHAT_TEMPLATE_INVALID', 'REQUEST_INVALID'])

/**
 * Expands sketches on a model of this device. All groups are decoded in packed steps; what the prompts of a sketch's groups have
 * in common is computed once.
 * @param kvBytes memory for their KV: it may allow fewer sequences
 * @throws BrimError CANCELED, OUT_OF_MEMORY, RUNTIME_FAILED; CONTEXT_OVERFLOW, CHAT_TEMPLATE_INVALID or REQUEST_INVALID of one sketch,
 * after the others have been expanded
 */
export async function expandOnBundle(
  model: LocalModel,
  prompts: PicePrompts,
  sketches: readonly SketchWork[],
  { maxSequences, kvBytes, onSentence, signal }: ExpandOptions & { readonly kvBytes: number },
): Promise<ExpansionCost> {
  const stop = new AbortController()
  const stopping = AbortSignal.any([signal, stop.signal])
  const sequences = new GroupSequences(model, stopping)
  const groups = sketches.flatMap((work) => {
    const sketch = new SketchPrompts(model.text, prompts, work, stopping)
    return work.groups.map((group) => ({ work, sketch, group }))
  })
  let refusal: BrimError | undefined
  /** The prompt of one sketch may be impossible, which must not keep the others waiting. */
  function refuse(error: unknown): undefined {
    if (!(error instanceof BrimError && promptErrors.has(error.code))) throw error
    refusal ??= error
  }
  async function expandGroup({ work, sketch, group }: (typeof groups)[number]): Promise<void> {
    const { candidate, sampling } = group
    const prompt = await sketch.first(group).catch(refuse)
    if (!prompt) return
    const sequence = await sequences.begin(prompt.shared)
    try {
      let current: LinePrompt = prompt
      let reply: string | undefined
      for (const sentence of group.sentences) {
        if (reply !== undefined) current = (await sketch.next(current, reply, sentence)) ?? (await sketch.alone(sentence))
        const written = await sequence.write(current, work.lines[sentence]!, sampling)
        reply = written.reply
        onSentence({ sketch: work.sketch, sentence, candidate, ...written })
      }
    } finally {
      sequence.release()
    }
  }
  try {
    const positions = (await groups[0]?.sketch.positions().catch(refuse)) ?? model.text.dims.contextLimit
    const width = fittingSequences(maxSequences, positions, sequences.sequenceBytes, kvBytes)
    await runAll(groups, width, expandGroup, () => stop.abort())
    if (refusal) throw refusal
    return sequences.cost
  } finally {
    sequences.release()
  }
}

type Written = Pick<WrittenSentence, 'reply' | 'tokens' | 'meanLog2Probability' | 'isCut'>

interface CachedPrefix {
  readonly sequence: Sequence
  readonly filled: Promise<unknown>
  /** Groups that have yet to copy it. */
  left: number
}

/** The sequences of all groups, whose steps are packed. */
class GroupSequences {
  readonly #model: LocalModel
  readonly #packer: StepPacker
  readonly #prefixes = new Map<SharedPrefix, CachedPrefix>()
  #promptTokens = 0
  #prefilledTokens = 0

  constructor(model: LocalModel, signal: AbortSignal) {
    this.#model = model
    this.#packer = new StepPacker(model.chain, signal)
  }

  get cost(): ExpansionCost {
    return { parallel: this.#packer.parallel, promptTokens: this.#promptTokens, prefilledTokens: this.#prefilledTokens }
  }

  get sequenceBytes() {
    return sequenceBytesOf(() => this.#model.chain.createSequence())
  }

  /** A sequence that has the prefix already. */
  async begin(shared: SharedPrefix | undefined) {
    const sequence = this.#model.chain.createSequence()
    const known: number[] = []
    const write = (prompt: LinePrompt, line: string, sampling: Sampling) =>
      this.#write(sequence, known, prompt, { line, sampling })
    const begun = { write, release: () => sequence.release() }
    if (!shared) return begun
    try {
      const prefix = this.#prefixOf(shared)
      await prefix.filled
      sequence.copyPrefix(prefix.sequence, shared.ids.length)
      known.push(...shared.ids)
      this.#promptTokens += shared.ids.length
      prefix.left -= 1
      if (prefix.left === 0) prefix.sequence.release()
      return begun
    } catch (error) {
      sequence.release()
      throw error
    }
  }

  release(): void {
    for (const { sequence } of this.#prefixes.values()) sequence.release()
  }

  #prefixOf(shared: SharedPrefix): CachedPrefix {
    const known = this.#prefixes.get(shared)
    if (known) return known
    const sequence = this.#model.chain.createSequence()
    const prefix = { sequence, filled: this.#prefill(sequence, shared.ids, 'none'), left: shared.groups }
    this.#prefixes.set(shared, prefix)
    return prefix
  }

  /** A text that has too few of its line's key words is written again, led to them. */
  async #write(
    sequence: Sequence,
    known: number[],
    prompt: LinePrompt,
    { line, sampling }: { readonly line: string; readonly sampling: Sampling },
  ) {
    const choose = (logits: Float32Array, reply: readonly number[]) => chooseToken(logits, sampling, sequence.length, reply)
    const covered = ({ reply }: Written) => coverage(line, cleanExpansion(reply, line).text)
    const own = await this.#attempt(sequence, known, prompt, choose)
    if (covered(own) >= leastCoverage) return own
    const bias = new KeyWordBias(this.#model.text.tokenizer, line)
    const led = await this.#attempt(sequence, known, prompt, (logits, reply) =>
      bias.choose(logits, (raised) => choose(raised, reply)),
    )
    return covered(led) > covered(own) ? led : own
  }

  /** @param known tokens of the sequence, which become those of prompt and reply */
  async #attempt(
    sequence: Sequence,
    known: number[],
    { ids, maxTokens }: LinePrompt,
    choose: (logits: Float32Array, reply: readonly number[]) => number,
  ): Promise<Written> {
    const { tokenizer, eos } = this.#model.text
    const shared = Math.min(commonLength(known, ids), ids.length - 1)
    sequence.truncate(shared)
    this.#promptTokens += ids.length - shared
    let logits = await this.#prefill(sequence, ids.slice(shared), 'last')
    const reply: number[] = []
    let log2Sum = 0
    let isCut = false
    for (;;) {
      const token = choose(logits, reply)
      if (eos.includes(token)) break
      log2Sum += log2Probability(logits, token)
      reply.push(token)
      isCut = reply.length >= maxTokens
      if (isCut) break
      logits = await this.#packer.step(sequence, [token], 'last')
    }
    known.splice(0, known.length, ...[...ids, ...reply].slice(0, sequence.length))
    return {
      reply: tokenizer.decode(reply, { skipSpecialTokens: true }),
      tokens: reply.length,
      meanLog2Probability: reply.length === 0 ? null : log2Sum / reply.length,
      isCut,
    }
  }

  /** Appends tokens to a sequence. @returns logits after the last, if selected */
  #prefill(sequence: Sequence, ids: readonly number[], select: 'last' | 'none'): Promise<Float32Array> {
    this.#prefilledTokens += ids.length
    return this.#packer.step(sequence, ids, select)
  }
}
