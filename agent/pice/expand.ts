import { cleanExpansion } from '../../core/answer/sketch/clean-expansion.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { DeviceExpansion, type DeviceExpansionSettings, type SketchGroups } from '../../core/policy/pice/device-expansion.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { ExpandedSentence, Expansion } from '../../core/wire/protocol/expansion.ts'
import { ExpandInput } from '../../core/wire/protocol/jobs.ts'
import { type JobHandler, parseInput } from '../jobs/job-handler.ts'
import { expandOnBundle } from './expand-on-bundle.ts'
import { expandOnServer } from './expand-on-server.ts'
import type { WrittenSentence } from './expansion-work.ts'
import { expansionWork, requestedSketch } from './plan-expansion.ts'
import type { SmallModels } from './small-models.ts'
import { maxPackedSequences } from './step-packer.ts'

export interface PiceExpandOptions {
  readonly models: SmallModels
  /** Jobs that wait on this device. */
  readonly jobsWaiting: () => number
  /** Memory that the KV of expansions may take now, in bytes. */
  readonly kvBytes: () => number
  /** Gets what runs take and decide. */
  readonly recording?: Recording | undefined
  readonly clock: Clock
  readonly nextSeed: () => number
  readonly logger: Logger
}

/**
 * `pice.expand`: small models write out the lines of sketches, as `DeviceExpansion` decides. Each sentence is reported and stored at once,
 * so that another attempt expands only those that are missing.
 */
export function piceExpand({ models, jobsWaiting, kvBytes, recording, clock, nextSeed, logger }: PiceExpandOptions): JobHandler {
  return async (given, _emitText, signal, job) => {
    const input = parseInput(ExpandInput, given)
    const settings: DeviceExpansionSettings = {
      sketches: input.sketches.map(requestedSketch),
      models: models.list(),
      current: models.current,
      isQueueEmpty: jobsWaiting() === 0,
      maxSequences: maxPackedSequences,
      waitedMs: job.waitedMs,
    }
    if (settings.models.length === 0)
      throw new BrimError('MODEL_MISSING', 'no small model is installed on this device', {
        hint: 'brim job submit bundle.install --model <bundle> --activate --device <id>',
      })
    const machine = new DeviceExpansion(settings)
    const run = recording?.of('device-expansion', settings, machine) ?? machine
    const sentences: ExpandedSentence[] = []
    const runs: Expansion['runs'] = []
    function finish(written: ExpandedSentence): void {
      const { sketch, sentence, candidate } = written
      if (run.handle({ kind: 'sentence', sketch, sentence, candidate }, clock.nowMs()).length === 0) return
      sentences.push(written)
      job.sentence(written)
    }

    async function expandWith(model: string, planned: readonly SketchGroups[]): Promise<void> {
      const work = expansionWork(input, planned, nextSeed)
      const { open, loadMs, release } = await models.borrow(model, signal)
      try {
        const beganMs = clock.nowMs()
        let tokens = 0
        function onSentence({ reply, isCut, ...written }: WrittenSentence): void {
          tokens += written.tokens
          const line = input.sketches[written.sketch]!.sketch[written.sentence]!
          const { text, reachesEnd } = cleanExpansion(reply, line)
          finish({ ...written, model, text, end: isCut && reachesEnd ? 'length' : 'stop' })
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

    for (const written of job.finishedSentences) finish(written)
    let [action] = run.handle({ kind: 'begin' }, clock.nowMs())
    while (action?.kind === 'expand') {
      const { model, work } = action
      try {
        await expandWith(model, work)
        ;[action] = run.handle({ kind: 'expanded' }, clock.nowMs())
      } catch (err) {
        if (signal.aborted || !(err instanceof BrimError)) throw err
        ;[action] = run.handle({ kind: 'failed' }, clock.nowMs())
        if (action?.kind === 'fail') throw err
        logger.warn({ err, model }, 'small model left out of an expansion')
      }
    }
    return { sentences, runs } satisfies Expansion
  }
}
