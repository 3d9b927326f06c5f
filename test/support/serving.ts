import { type ServedModel, splitModel } from '../../cloud-bridge/serving/served-model.ts'
import { createServing, type Serving, type ServingOptions } from '../../cloud-bridge/serving/serving.ts'
import type { SlowTier } from '../../cloud-bridge/serving/slow-tier.ts'
import { memoryTier } from '../../cloud-bridge/serving/slow-tier-memory.ts'
import type { Stream } from '../../cloud-bridge/serving/stream.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Part } from '../../core/model/engine/contract.ts'
import type { LoadedModel } from '../../core/model/engine/open-model.ts'
import { shareHead } from '../../core/model/engine/shared-head.ts'
import { decodeFirst } from '../../core/policy/serving/decode-first.ts'
import { silentLogger } from './silent-logger.ts'

/** Serving over any model, or over a middle part alone, with small steps. */
export function testServing(
  model: Part | ServedModel,
  options: Partial<
    Pick<ServingOptions, 'policy' | 'clock' | 'onStep' | 'maxDecodeRows' | 'maxMemoryWaitMs' | 'maxWaitingAnswers' | 'recorded'>
  > & {
    readonly step?: Partial<ServingOptions['step']>
    readonly kv?: Partial<ServingOptions['kv']>
    readonly tiers?: Partial<ServingOptions['tiers']>
  } = {},
): Serving {
  const { maxDecodeRows = 8, step, kv, tiers, ...others } = options
  return createServing({
    model: 'createSequence' in model ? splitModel(model) : model,
    policy: decodeFirst({ promptRows: 32, minPromptRows: maxDecodeRows, maxStepsSkipped: 4, decodingMs: 500 }),
    step: { rows: 64, streams: 16, pipeline: 1, ...step },
    kv: {
      budgetBytes: 2 ** 30,
      ownerBytes: kv?.budgetBytes ?? 2 ** 30,
      contextLimit: 256,
      firstPositions: 16,
      prefixMs: 0,
      ...kv,
    },
    tiers: { slow: memoryTier(2 ** 30), kvModel: 'test', writeThrough: true, overlap: true, ...tiers },
    maxDecodeRows,
    maxMemoryWaitMs: 10_000,
    maxWaitingAnswers: 64,
    clock: systemClock,
    logger: silentLogger(),
    ...others,
  })
}

/** A bundle with all its layers, for answers of a bridge's own. */
export const servedOf = (model: LoadedModel): ServedModel =>
  splitModel(model.part('middle'), {
    input: model.part('input'),
    head: shareHead(model.head(), model.manifest.dims.vocab),
  })

/** A slow tier that takes its time. @param onTransfer called as each page begins to move */
export function watchedTier(onTransfer: (kind: 'save' | 'load') => void | Promise<void>): SlowTier {
  const tier = memoryTier(2 ** 24)
  return {
    ...tier,
    open() {
      const copy = tier.open()
      return {
        get bytes() {
          return copy.bytes
        },
        async save(at, page) {
          await onTransfer('save')
          return copy.save(at, page)
        },
        async load(at) {
          await onTransfer('load')
          return copy.load(at)
        },
        release: () => copy.release(),
        leave: () => copy.release(),
      }
    },
  }
}

/** @throws Error where there is no memory for the stream */
export async function openStream(serving: Serving, owner = 'jetson-01'): Promise<Stream> {
  const opened = await serving.open(owner)
  if (!opened) throw new Error('no memory for a stream')
  return opened.stream
}
