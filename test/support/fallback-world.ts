import { join } from 'node:path'
import type { Api } from '../../agent/api/server.ts'
import { discoEndpoint } from '../../agent/disco/endpoint.ts'
import { hatEndpoint } from '../../agent/hat/endpoint.ts'
import { slmEndpoint } from '../../agent/slm/endpoint.ts'
import { type LocalModel, openLocalModel } from '../../agent/slm/local-model.ts'
import type { Endpoint, TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { loadTextModel, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Chain, Sequence } from '../../core/model/engine/contract.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { answerPlan, answerSide } from './answer-plan.ts'
import { startTestApi } from './api.ts'
import { startTestBridge } from './bridge.ts'
import { dataLinkTo } from './data-link.ts'
import { type HatWorld, startHatWorld, withoutDrafts } from './hat-world.ts'
import { recordingLogger } from './recording-logger.ts'
import { tempDir } from './temp-dir.ts'
import { unrecorded } from './unrecorded.ts'

/** A device with an API whose only bridge stops. */
export interface FallbackDevice extends AsyncDisposable {
  readonly api: Api
  /** KV bytes that the local model's unreleased sequences hold. */
  heldBytes(): number
  /** Lines of the API's log. */
  readonly logged: readonly Record<string, unknown>[]
}

/** The demonstration models: the LLM between device and bridges, small ones on the device. */
export interface FallbackWorld extends AsyncDisposable {
  readonly hat: HatWorld
  /** Of the LLM. */
  readonly text: TextModel
  /** A small model with the LLM's vocabulary. */
  readonly deep: LocalModel
  /** A small model with another vocabulary. */
  readonly other: LocalModel
  /** @param options `until`: the bridge stops before it receives the row of this position; 0: before any session */
  startDevice(options: { until: number; local?: LocalModel; beforeStep?: () => void }): Promise<FallbackDevice>
}

export async function startFallbackWorld(): Promise<FallbackWorld> {
  const dir = tempDir()
  const bundle = await ensureDemoBundle('llm')
  const hat = await startHatWorld({ bundle })
  const { manifest } = hat.model
  const text = await loadTextModel(bundle, manifest)
  const open = async (name: 'slm-deep' | 'slm-other') => openLocalModel({ bundle: await ensureDemoBundle(name), threads: 1 })
  const [deep, other] = [await open('slm-deep'), await open('slm-other')]
  let started = 0

  return {
    hat,
    text,
    deep,
    other,
    async startDevice({ until, local, beforeStep }) {
      const stateDir = join(dir.path, `bridge-${started++}`)
      const bridge = await startTestBridge({ bundle, stateDir })
      const link = dataLinkTo(bridge.dataUrl, { birth: started, speed: hat.options().speed })
      let stopped: Promise<void> | undefined
      const stopBridge = () => {
        stopped ??= bridge.close()
        return stopped
      }
      if (until === 0) await stopBridge()
      const options = hat.options({
        // Without drafts the bridge stops after the same number of tokens each time.
        ...withoutDrafts,
        patienceMs: 100,
        async open(signal, sessionOptions) {
          const session = await link.open(manifest.modelId, signal, sessionOptions)
          const exchange = session.exchange.bind(session)
          session.exchange = async (base, rows, ...more) => {
            if (base + rows.rows > until) await stopBridge()
            return exchange(base, rows, ...more)
          }
          return session
        },
      })
      const counted = local && countedChain(local.chain, beforeStep)
      const { logger, lines } = recordingLogger('info')
      const slm = local && counted && slmEndpoint({ ...local, chain: counted.chain }, systemClock)
      const endpoint = privateEndpoint(hatEndpoint(options, text), slm)
      const api = await startTestApi(manifest, endpoint, { slm, logger })
      return {
        api,
        heldBytes: () => counted?.heldBytes() ?? 0,
        logged: lines,
        async [Symbol.asyncDispose]() {
          await api.close()
          await link.close()
          await stopBridge()
        },
      }
    },
    async [Symbol.asyncDispose]() {
      await deep.close()
      await other.close()
      await hat[Symbol.asyncDispose]()
      dir[Symbol.dispose]()
    },
  }
}

/** HAT, and the small model where the request allows it. */
export const privateEndpoint = (hat: TokenEndpoint, slm: TokenEndpoint | undefined): Endpoint =>
  discoEndpoint({
    model: hat.model,
    clock: systemClock,
    begin: unrecorded,
    async plan({ fallback }) {
      const device = fallback && slm
      const dispatch = { local: Number.POSITIVE_INFINITY, remote: 0 }
      const sides = { remote: answerSide(hat), ...(device && { local: answerSide(device) }) }
      return answerPlan(sides, { mode: 'private', dispatch }).plan
    },
  })

/** The same model; `heldBytes`: KV bytes of its unreleased sequences. */
function countedChain(chain: Chain, beforeStep = () => {}): { chain: Chain; heldBytes(): number } {
  const held = new Set<Sequence>()
  return {
    heldBytes: () => [...held].reduce((sum, sequence) => sum + sequence.bytes, 0),
    chain: {
      manifest: chain.manifest,
      createSequence() {
        const sequence = chain.createSequence()
        held.add(sequence)
        return sequence
      },
      step(items) {
        beforeStep()
        return chain.step(items)
      },
    },
  }
}
