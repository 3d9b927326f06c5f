import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Check } from '../../core/commands/doctor-checks.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { connectPinned } from '../../core/kit/base/pinned-socket.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { stateHome } from '../../core/kit/base/state-home.ts'
import { brokerNodes, brokerPort } from '../../core/wire/protocol/mqtt-url.ts'
import { readPinnedEnrolments } from '../identity/bridge-pins.ts'

const timeoutMs = 3_000

interface Broker {
  readonly mqttUrl: string
  /** Of the bridge's TLS keys, where the device enrolled with one. */
  readonly pins?: readonly string[]
}

/** Lines of `brim doctor`: whether the bridges where this user's devices have enrolled can be reached. */
export async function checkBridges(io: Io): Promise<Check[]> {
  const agents = join(stateHome(io), 'brim/agents')
  const brokers = new Map<string, Broker>()
  for (const id of foldersIn(agents))
    for (const { mqttUrl, pins, foreignBroker } of readPinnedEnrolments(join(agents, id)))
      for (const node of brokerNodes(mqttUrl)) brokers.set(node, { mqttUrl: node, pins: foreignBroker ? [] : pins })
  return Promise.all([...brokers.values()].map(checkBroker))
}

export async function checkBroker({ mqttUrl, pins = [] }: Broker): Promise<Check> {
  const { hostname, protocol } = new URL(mqttUrl)
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    if (pins.length > 0 && /^(?:mqtts|wss):$/.test(protocol)) (await connectPinned(mqttUrl, pins, signal)).destroy()
    else await connectTcp(hostname.replace(/^\[(.*)\]$/, '$1'), brokerPort(mqttUrl), signal)
    return { name: 'bridge', status: 'ok', detail: `${shownUrl(mqttUrl)} can be reached`, values: { url: shownUrl(mqttUrl) } }
  } catch (error) {
    const why = signal.aborted
      ? `no response within ${timeoutMs / 1_000} s`
      : error instanceof Error
        ? error.message
        : String(error)
    const hint = 'is the bridge running, and does a firewall let this device through?'
    return {
      name: 'bridge',
      status: 'fail',
      detail: `${shownUrl(mqttUrl)}: ${why}`,
      hint,
      code: 'BROKER_UNREACHABLE',
      values: { url: shownUrl(mqttUrl) },
    }
  }
}

async function connectTcp(host: string, port: number, signal: AbortSignal): Promise<void> {
  const socket = connect({ host, port, signal })
  try {
    await once(socket, 'connect', { signal })
  } finally {
    socket.destroy()
  }
}

function foldersIn(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
