import { join } from 'node:path'
import type { HatOptions, HatRequest } from '../../agent/hat/hat-options.ts'
import { PrefixMemory } from '../../agent/hat/prefix-memory.ts'
import { answerByHat } from '../../agent/hat/session.ts'
import type { DataLink } from '../../agent/link/data-link.ts'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import type { EndpointFigures } from '../../core/answer/endpoint/figures.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { drafterParts, draftOutput, partsOfDrafter } from '../../core/model/bundle/manifest.ts'
import { adapterDrafter } from '../../core/model/draft/adapter-drafter.ts'
import { noDrafter } from '../../core/model/draft/drafter.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import type { TokenLogprobs } from '../../core/model/engine/logprobs.ts'
import { type LoadedModel, openModel } from '../../core/model/engine/open-model.ts'
import { type SharedHead, shareHead } from '../../core/model/engine/shared-head.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { healthOf, startTestBridge, type TestBridge } from './bridge.ts'
import { dataLinkTo } from './data-link.ts'
import { tempDir } from './temp-dir.ts'
import { tinyBundle } from './tiny-bundle.ts'

export interface HatAnswer {
  readonly tokens: number[]
  readonly rounds: { tokens: readonly number[]; drafted: number; accepted: number }[]
  /** Where the request asks for them. */
  readonly logprobs: readonly TokenLogprobs[]
  readonly figures: EndpointFigures
}

/** A bundle, a real bridge that serves its middle, and the device's parts, without the agent around them. */
export interface HatWorld extends AsyncDisposable {
  readonly bundle: string
  readonly model: LoadedModel
  readonly bridge: TestBridge
  readonly link: DataLink
  readonly head: SharedHead
  /** The reference: the whole model in this process. */
  readonly chain: Chain
  options(overrides?: Partial<HatOptions>): HatOptions
  answer(
    request: Partial<HatRequest> & Pick<HatRequest, 'prompt'>,
    overrides?: Partial<HatOptions>,
    signal?: AbortSignal,
  ): Promise<HatAnswer>
  sessionsAtBridge(): Promise<number>
}

/** @param options `bundle`: a split bundle's folder; default: a tiny random one with an adapter. `settings.chunkTokens`: for the whole test */
export async function startHatWorld(options: { bundle?: string; settings?: Partial<BridgeSettings> } = {}): Promise<HatWorld> {
  const dir = tempDir()
  const tiny = options.bundle === undefined ? await tinyBundle({ adapter: true }) : undefined
  const bundle = options.bundle ?? tiny!.path
  const bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge'), ...options.settings })
  const { chunkTokens } = options.settings ?? {}
  const runtime = await openRuntime()
  const { parts } = await readManifest(bundle)
  const drafters = drafterParts.flatMap((name) => partsOfDrafter({ parts }, name))
  const model = await openModel(runtime, bundle, { parts: ['input', 'middle', 'output', ...drafters], threads: 1 })
  const { dims, modelId } = model.manifest
  const head = shareHead(model.head(), dims.vocab)
  const adapterHead = parts[draftOutput] ? shareHead(model.head(draftOutput), dims.vocab) : head
  const speed = new DeviceSpeed()
  const link = dataLinkTo(bridge.dataUrl, { speed })

  const hatOptions = (overrides: Partial<HatOptions> = {}): HatOptions => ({
    dims,
    input: model.part('input'),
    head,
    speed,
    wire: 'fp16',
    padding: true,
    prefill: 'chunked',
    draftAhead: true,
    open: async (signal, sessionOptions) => {
      const session = await link.open(modelId, signal, sessionOptions)
      // Eq. 3 would change it as soon as the rates are known, a few seconds after the world has begun.
      return chunkTokens === undefined
        ? session
        : Object.defineProperty(session, 'chunkTokens', { get: () => chunkTokens, set() {} })
    },
    createDrafter: (sampling) => adapterDrafter(model.part('adapter'), adapterHead, sampling),
    threshold: 0.6,
    draftLimit: 8,
    patienceMs: 5_000,
    // A new memory for each answer; a test of reuse passes its own.
    prefixes: new PrefixMemory(systemClock),
    clock: systemClock,
    ...overrides,
  })
  return {
    bundle,
    model,
    bridge,
    link,
    head,
    chain: model.chain({ cuts: 'half' }),
    options: hatOptions,
    async answer(request, overrides, signal = new AbortController().signal) {
      const full = {
        client: 'app',
        maxTokens: 16,
        sampling: { temperature: 0, topK: 0, topP: 1, seed: 0 },
        eos: [],
        ...request,
      }
      const rounds: HatAnswer['rounds'] = []
      const logprobs: TokenLogprobs[] = []
      let figures: EndpointFigures | undefined
      for await (const round of answerByHat(hatOptions(overrides), full, signal)) {
        const { tokens, drafted, accepted } = round
        rounds.push({ tokens, drafted, accepted })
        logprobs.push(...(round.logprobs ?? []))
        figures = round.figures()
      }
      if (!figures) throw new Error('an answer without a round')
      return { tokens: rounds.flatMap(({ tokens }) => tokens), rounds, logprobs, figures }
    },
    sessionsAtBridge: async () => (await healthOf(bridge)).sessions,
    async [Symbol.asyncDispose]() {
      await link.close()
      await bridge.close()
      await model.release()
      await runtime.close()
      dir[Symbol.dispose]()
      tiny?.[Symbol.dispose]()
    },
  }
}

export const withoutDrafts: Partial<HatOptions> = { createDrafter: noDrafter }
