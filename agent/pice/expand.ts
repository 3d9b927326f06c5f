import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { cleanExpansion } from '../../core/pice/clean-expansion.ts'
import type { ExpandedSentence, Expansion } from '../../core/protocol/expansion.ts'
import { ExpandInput } from '../../core/protocol/jobs.ts'
import { type JobHandler, parseInput } from '../jobs/job-handler.ts'
import { expandOnBundle } from './expand-on-bundle.ts'
import { expandOnServer } from './expand-on-server.ts'
import type { SketchWork, WrittenSentence } from './expansion-work.ts'
import { chooseSources, workOf } from './plan-expansion.ts'
import type { OpenSmallModel, SmallModels } from './small-models.ts'
import { maxPackedSequences } from './step-packer.ts'

export interface PiceExpandOptions {
  readonly models: SmallModels
  /** Jobs that wait on this device. */
  readonly jobsWaiting: () => number
  readonly clock: Clock
  readonly nextSeed: () => number
}

/** `pice.expand`: small models write out the lines of sketches (PICE, Algorithm 2, execution optimiser and ensemble). */
export function piceExpand({ models, jobsWaiting, clock, nextSeed }: PiceExpandOptions): JobHandler {
  return async (given, _emitText, signal, job) => {
    const input = parseInput(ExpandInput, given)
    const sentences: ExpandedSentence[] = []
    const runs: Expansion['runs'] = []
    const isMissing = (sketch: number, sentence: number, candidate: number) =>
      !sentences.some((known) => known.sketch === sketch && known.sentence === sentence && known.candidate === candidate)
    const speeds = models.list()
    if (speeds.length === 0) throw new BrimError('MODEL_MISSING', 'this device has no small model', { hint: 'install one' })
    const terms = {
      models: speeds,
      current: models.current,
      isQueueEmpty: jobsWaiting() === 0,
      maxSequences: maxPackedSequences,
    }
    const sources = chooseSources(input, terms)
    for (const name of new Set(sources.map(({ model }) => model))) {
      const speed = speeds.find(({ model }) => model === name)!
      const work = workOf(input, sources, speed, terms, isMissing, nextSeed)
      if (work.length === 0) continue
      const { open, loadMs, release } = await models.borrow(name, signal)
      try {
        const beganMs = clock.nowMs()
        let tokens = 0
        const onSentence = ({ reply, ...written }: WrittenSentence) => {
          tokens += written.tokens
          const line = input.sketches[written.sketch]!.sketch[written.sentence]!
          const finished = { ...written, model: name, text: cleanExpansion(reply, line) }
          sentences.push(finished)
          job.sentence(finished)
        }
        const cost = await expandOn(open, work, onSentence, signal)
        const tookMs = clock.nowMs() - beganMs
        const groups = work.reduce((sum, sketch) => sum + sketch.groups.length, 0)
        runs.push({ model: name, groups, ...cost, tokens, loadMs, tookMs })
        models.record({ model: name, sequences: cost.parallel, tokens, tookMs })
      } finally {
        release()
      }
    }
    return { sentences, runs } satisfies Expansion
  }
}

function expandOn(
  open: OpenSmallModel,
  work: readonly SketchWork[],
  onSentence: (sentence: WrittenSentence) => void,
  signal: AbortSignal,
) {
  const options = { maxSequences: maxPackedSequences, onSentence, signal }
  return open.kind === 'bundle'
    ? expandOnBundle(open.model, open.prompts, work, options)
    : expandOnServer(open.endpoint, open.prompts, work, options)
}
