import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { startTestBridge } from './bridge.ts'
import { connectExpandingDevice, type DeviceRun } from './expanding-device.ts'
import { type Asked, instructedUpstream } from './instructed-upstream.ts'
import { postJson } from './post-json.ts'
import { tempDir } from './temp-dir.ts'

export interface Response {
  readonly status: number
  readonly text: string
  readonly tokens: number
  readonly sources: readonly { readonly source: string; readonly device?: string }[]
  readonly pice: Partial<PiceFigures>
  readonly error: { readonly code?: string; readonly message?: string; readonly param?: string } | undefined
}

/** A bridge in this process, before an upstream that sketches. @param reply of the upstream, where it is another than usual */
export async function startSketchingBridge(
  reply?: Parameters<typeof instructedUpstream>[0],
  settings: Partial<BridgeSettings> = {},
  clock?: Clock,
) {
  const dir = tempDir()
  const upstream = await instructedUpstream(reply)
  const stateDir = join(dir.path, 'bridge')
  const bridge = await startTestBridge({ stateDir, upstream: { url: upstream.url, model: 'llm' }, ...settings }, clock)
  const devices = new Map<string, AsyncDisposable>()
  return {
    bridge,
    upstream,
    /** Which expands as the test says. Resolves once plans know it. */
    async device(id: string, onRun: (run: DeviceRun) => unknown) {
      const device = await connectExpandingDevice(bridge.mqttUrl, id, onRun)
      devices.set(id, device)
      await profile(bridge.httpUrl, id)
      return device
    },
    /** It leaves, as if its power was cut. */
    async remove(id: string) {
      await devices.get(id)?.[Symbol.asyncDispose]()
      devices.delete(id)
    },
    ask: (more: object = {}, mode: BridgeMode = 'sketch') => ask(bridge.httpUrl, more, mode),
    async [Symbol.asyncDispose]() {
      await Promise.all([...devices.values()].map((device) => device[Symbol.asyncDispose]()))
      await bridge.close()
      await upstream[Symbol.asyncDispose]()
      dir[Symbol.dispose]()
    },
  }
}

/** Resolves once the bridge knows how fast the device is, and plans with it. */
async function profile(httpUrl: string, device: string): Promise<void> {
  const find = async () => (await fetch(`${httpUrl}/v1/devices/${device}`)).text()
  const untilItHas = async (text: string) => {
    while (!(await find()).includes(text)) await sleep(20)
  }
  await untilItHas('"ready"')
  await postJson(`${httpUrl}/v1/jobs`, { kind: 'profile', input: {}, device })
  await untilItHas('"ttftMs"')
}

async function ask(url: string, more: object, mode: BridgeMode): Promise<Response> {
  const body = { messages: [{ role: 'user', content: 'How do I bake bread?' }], brim: { mode }, ...more }
  const response = await postJson(`${url}/v1/chat/completions`, body)
  const { choices, usage, brim, error } = (await response.json()) as {
    choices?: [{ message: { content: string } }]
    usage?: { completion_tokens: number }
    brim?: { sources: Response['sources']; pice?: PiceFigures }
    error?: Response['error']
  }
  return {
    status: response.status,
    text: choices?.[0].message.content ?? '',
    tokens: usage?.completion_tokens ?? 0,
    sources: brim?.sources ?? [],
    pice: brim?.pice ?? {},
    error,
  }
}

export type { Asked }
