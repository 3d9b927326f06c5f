import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { cleanExpansion } from '../../core/pice/clean-expansion.ts'
import type { CandidateSource } from '../../core/policy/pice/choose-candidates.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import { type ExpandedSentence, type Expansion, requestedSentences, sentenceKey } from '../../core/protocol/expansion.ts'
import { ExpandInput } from '../../core/protocol/jobs.ts'
import { type JobHandler, parseInput } from '../jobs/job-handler.ts'
import { expandOnBundle } from './expand-on-bundle.ts'
import { expandOnServer } from './expand-on-server.ts'
import type { WrittenSentence } from './expansion-work.ts'
import { chooseSources, workOf } from './plan-expansion.ts'
import type { SmallModels } from './small-models.ts'
import { maxPackedSequences } from './step-packer.ts'

export interface PiceExpandOptions {
  readonly models: SmallModels
  /** Jobs that wait on this device. */
  readonly jobsWaiting: () => number
  /** Memory that the KV of expansions may take now, in bytes. */
  readonly kvBytes: () => number
  readonly clock: Clock
  readonly nextSeed: () => number
  readonly logger: Logger
}

/**
 * `pice.expand`: small models write out the lines of sketches (PICE, Algorithm 2, execution optimiser, ensemble). Each sentence is
 * reported and stored at once, so that another attempt expands only those that are missing.
 */
export function piceExpand({ models, jobsWaiting, kvBytes, clock, nextSeed, logger }: PiceExpandOptions): JobHandler {
  return async (given, _emitText, signal, job) => {
    const startedMs = clock.nowMs()
    const input = parseInput(ExpandInput, given)
    const missing = new Set(requestedSentences(input.sketches).map(sentenceKey))
    const sentences: ExpandedSentence[] = []
    const runs: Expansion['runs'] = []
    function finish(written: ExpandedSentence): void {
      // A sentence may have been stored twice: for an attempt that was given up, and for the next.
      if (!missing.delete(sentenceKey(written))) return
      sentences.push(written)
      job.sentence(written)
    }
    for (const written of job.finishedSentences) finish(written)

    const terms = {
      models: models.list(),
      current: models.current,
      isQueueEmpty: jobsWaiting() === 0,
      maxSequences: maxPackedSequences,
    }
    const spentS = () => (job.waitedMs + clock.nowMs() - startedMs) / 1_000

    /** Expands what one model has to: nothing if earlier attempts have done so. */
    async function expandWith(speed: SmallModelSpeed, sources: readonly CandidateSource[]): Promise<void> {
      const { model } = speed
      const now = { ...terms, spentS: spentS() }
      const work = workOf(input, sources, speed, now, (at) => missing.has(sentenceKey(at)), nextSeed)
      if (work.length === 0) return
      const { open, loadMs, release } = await models.borrow(model, signal)
      try {
        const beganMs = clock.nowMs()
        let tokens = 0
        function onSentence({ reply, ...written }: WrittenSentence): void {
          tokens += written.tokens
          const line = input.sketches[written.sketch]!.sketch[written.sentence]!
          finish({ ...written, model, text: cleanExpansion(reply, line) })
        }
        const options = { maxSequences: maxPackedSequences, kvBytes: kvBytes(), onSentence, signal }
        const cost = await (open.kind === 'bundle'
          ? expandOnBundle(open.model, open.prompts, work, options)
          : expandOnServer(open.endpoint, open.prompts, work, options))
        const tookMs = clock.nowMs() - beganMs
        runs.push({ model, groups: work.reduce((sum, { groups }) => sum + groups.length, 0), ...cost, tokens, loadMs, tookMs })
        models.record({ model, sequences: cost.parallel, tokens, tookMs })
      } finally {
        release()
      }
    }

    const speedOf = (name: string) => terms.models.find(({ model }) => model === name)!
    if (terms.models.length === 0)
      throw new BrimError('MODEL_MISSING', 'no small model is installed on this device', {
        hint: 'brim job submit bundle.install --model <bundle> --activate --device <id>',
      })
    let sources = chooseSources(input, { ...terms, spentS: spentS() })
    const first = sources[0]!.model
    for (const model of new Set(sources.map((source) => source.model))) {
      try {
        await expandWith(speedOf(model), sources)
      } catch (err) {
        if (model === first || signal.aborted || !(err instanceof BrimError)) throw err
        // The ensemble is for quality only: samples of the first model take the place.
        logger.warn({ err, model }, 'small model left out of an expansion')
        sources = sources.map((source, sample) => (source.model === model ? { model: first, sample } : source))
        await expandWith(speedOf(first), sources)
      }
    }
    return { sentences, runs } satisfies Expansion
  }
}
