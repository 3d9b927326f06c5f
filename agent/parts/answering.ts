import type { TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { Slots } from '../../core/answer/upstream/slots.ts'
import { canBranch, type Manifest } from '../../core/model/bundle/manifest.ts'
import { draftSources } from '../../core/model/draft/draft-sources.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { stateCoders } from '../../core/wire/protocol/row-coder.ts'
import { type DrafterParts, drafterMaker } from '../hat/create-drafter.ts'
import { hatEndpoint } from '../hat/endpoint.ts'
import type { HatOptions } from '../hat/hat-options.ts'
import type { DeviceModel } from '../hat/open-device-model.ts'
import { PrefixMemory } from '../hat/prefix-memory.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { ActiveModel } from '../models/model-slot.ts'
import { borrowingEndpoint } from '../slm/endpoint.ts'
import type { AgentVariant } from '../variant.ts'
import type { Base } from './base.ts'

/** The parts that make answers: HAT, and the small model. They change with the models. */
export class Answering {
  readonly meter: AnswerMeter
  /** The split model; undefined: there is none. */
  llm: SplitAnswering | undefined
  slm: TokenEndpoint | undefined
  readonly #base: Base
  readonly #models: ActiveModels
  readonly #links: BridgeLinks
  readonly #variant: AgentVariant

  constructor(base: Base, models: ActiveModels, links: BridgeLinks, variant: AgentVariant) {
    this.#base = base
    this.#models = models
    this.#links = links
    this.#variant = variant
    this.meter = new AnswerMeter(base.clock)
    this.update()
  }

  /** The split model as a way of answering; undefined: there is none, or a benchmark compares answers without it. */
  get hat(): SplitAnswering | undefined {
    return this.#variant.withoutHat ? undefined : this.llm
  }

  /** What answers with a split model that is not the current one. */
  endpointOf(opened: ActiveModel<DeviceModel>): TokenEndpoint {
    const variant = { ...this.#variant, forgetsPrefixes: true }
    return splitAnswering(this.#base, opened, new DeviceSpeed(), this.#links, variant, this.#models).endpoint
  }

  /** After a model was replaced. */
  update(): void {
    const { llm, slm, smallModels, speed } = this.#models
    const { clock } = this.#base
    this.llm?.release()
    this.llm = llm.current && splitAnswering(this.#base, llm.current, speed, this.#links, this.#variant, this.#models)
    this.slm = slm && borrowingEndpoint(slm.text, (signal) => smallModels.borrow(slm.source.name, signal), clock)
  }
}

interface SplitAnswering {
  readonly manifest: Manifest
  readonly text: TextModel
  readonly endpoint: TokenEndpoint
  /** The same without the device's drafter. */
  draftedBy(createDrafter: HatOptions['createDrafter']): TokenEndpoint
  /** Frees what earlier answers have left. Those in progress end as they would. */
  release(): void
}

/** HAT with the device's parts of the split model. */
function splitAnswering(
  { config, clock, recording }: Base,
  { model, gate }: ActiveModel<DeviceModel>,
  speed: DeviceSpeed,
  links: BridgeLinks,
  variant: AgentVariant,
  models: ActiveModels,
): SplitAnswering {
  const { draft } = config
  const { adapter, adapterHead, input, head, text, manifest } = model
  const { dims } = manifest
  const branches = canBranch(manifest)
  const treeDrafter = branches ? variant.treeDrafter : undefined
  const draftAhead = draft.ahead && branches
  const hat: HatOptions = {
    begin: () => gate.begin(),
    slots: new Slots({ requests: config.limits.hatAnswers, queue: config.limits.hatWaiting }),
    recording,
    dims,
    input,
    head,
    speed,
    wire: config.wire === 'int8' ? 'int8' : 'fp16',
    coders: config.wire === 'fp16c' ? stateCoders(manifest) : undefined,
    computing: () => model.computing,
    padding: config.padding,
    intervalMs: config.hatIntervalMs,
    prefill: variant.prefill ?? 'chunked',
    prefixes: variant.forgetsPrefixes ? undefined : new PrefixMemory(clock),
    // Answers in progress go on with their model after the device's has been replaced.
    open: (signal, { early, ...options } = {}) =>
      links.open(signal, { ...options, early: early && !variant.awaitsSessions, modelId: manifest.modelId }),
    createDrafter: treeDrafter
      ? () => treeDrafter(model)
      : drafterMaker(draft.drafter, {
          adapter,
          head: adapterHead,
          slm: draftModel(model, models),
          draftAhead,
        }),
    threshold: draft.threshold,
    draftLimit: draft.drafter === 'none' && !treeDrafter ? 0 : (draft.limit ?? Number.POSITIVE_INFINITY),
    draftAhead,
    patienceMs: config.patienceS * 1_000,
    clock,
  }
  return {
    manifest,
    text,
    endpoint: hatEndpoint(hat, text),
    draftedBy: (createDrafter) =>
      hatEndpoint({ ...hat, createDrafter, threshold: 0, draftLimit: Number.POSITIVE_INFINITY, draftAhead: false }, text),
    release: () => hat.prefixes?.release(),
  }
}

/** The device's small model, if it can draft for this model. */
function draftModel(
  { manifest, text }: DeviceModel,
  { slm, smallModels }: Pick<ActiveModels, 'slm' | 'smallModels'>,
): DrafterParts['slm'] {
  const small = slm ? [{ name: slm.source.name, tokenizerHash: slm.text.tokenizerHash }] : []
  const sources = draftSources({ hasAdapter: manifest.parts.adapter !== undefined, tokenizerHash: text.tokenizerHash, small })
  const source = sources.find((each) => each.kind === 'slm')
  if (!source) return undefined
  const borrow = async (signal: AbortSignal) => {
    const { model, release } = await smallModels.borrow(source.model, signal)
    return { chain: model.chain, release }
  }
  return { borrow, vocab: text.dims.vocab }
}
