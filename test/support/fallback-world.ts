import { join } from 'node:path'
import { AnswerMeter } from '../../agent/answer/meter.ts'
import { loadTextModel, type TextModel } from '../../agent/answer/text-model.ts'
import { type Api, startApi } from '../../agent/api/server.ts'
import { hatEndpoint } from '../../agent/hat/endpoint.ts'
import { DataLink } from '../../agent/link/data-link.ts'
import { slmEndpoint } from '../../agent/slm/endpoint.ts'
import { type LocalModel, openLocalModel } from '../../agent/slm/local-model.ts'
import { startBridge } from '../../cloud-bridge/bridge.ts'
import { systemClock } from '../../core/base/clock.ts'
import type { Chain, Sequence } from '../../core/engine/contract.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { type HatWorld, startHatWorld, withoutDrafts } from './hat-world.ts'
import { recordingLogger } from './recording-logger.ts'
import { silentLogger } from './silent-logger.ts'
import { tempDir } from './temp-dir.ts'

/** A device with an API, whose one bridge dies. */
export interface OrphanedDevice extends AsyncDisposable {
  readonly api: Api
  /** KV bytes that the local model's unreleased sequences hold. */
  heldBytes(): number
  /** Lines of the API's log. */
  readonly logged: readonly Record<string, unknown>[]
}

/** The demonstration models: the LLM between device and bridges, small ones on the device. */
export interface FallbackWorld extends AsyncDisposable {
  readonly hat: HatWorld
  /** The LLM's. */
  readonly text: TextModel
  /** With the LLM's vocabulary. */
  readonly deep: LocalModel
  /** With one of its own. */
  readonly other: LocalModel
  /** @param options `until`: the bridge dies before a session gives it the row of this position; 0: before any session */
  orphan(options: { until: number; local?: LocalModel; beforeStep?: () => void }): Promise<OrphanedDevice>
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
    async orphan({ until, local, beforeStep }) {
      const stateDir = join(dir.path, `bridge-${started++}`)
      const ports = { mqttPort: 0, httpPort: 0 }
      const bridge = await startBridge({ bundle, stateDir, ...ports, threads: 1, logLevel: 'silent' })
      const device = { device: 'jetson-01', birth: started, random: { next: () => 0 }, clock: systemClock }
      const { speed } = hat.options()
      const link = new DataLink({ ...device, speed, logger: silentLogger() })
      link.connectTo(bridge.dataUrl)
      let dead: Promise<void> | undefined
      const dies = () => {
        dead ??= bridge.close()
        return dead
      }
      if (until === 0) await dies()
      const options = hat.options({
        // So that the bridge always dies after as many tokens.
        ...withoutDrafts,
        patienceMs: 100,
        async open(signal, wish) {
          const session = await link.open(manifest.modelId, signal, wish)
          const exchange = session.exchange.bind(session)
          session.exchange = async (base, rows, ...more) => {
            if (base + rows.rows > until) await dies()
            return exchange(base, rows, ...more)
          }
          return session
        },
      })
      const counted = local && countedChain(local.chain, beforeStep)
      const { logger, lines } = recordingLogger('info')
      const api = await startApi({
        host: '127.0.0.1',
        port: 0,
        createdAt: manifest.card.createdAt,
        modelNames: [manifest.card.name],
        nextSeed: () => 1,
        health: () => ({}),
        endpoint: hatEndpoint(options, text),
        slm: local && counted && slmEndpoint({ ...local, chain: counted.chain }, systemClock),
        meter: new AnswerMeter(systemClock),
        clock: systemClock,
        logger,
      })
      return {
        api,
        heldBytes: () => counted?.heldBytes() ?? 0,
        logged: lines,
        async [Symbol.asyncDispose]() {
          await api.close()
          await link.close()
          await dies()
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

/** The same model; `heldBytes`: what its unreleased sequences hold. */
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
