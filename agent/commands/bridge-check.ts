import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Io } from '../../core/base/io.ts'
import { connectPinned } from '../../core/base/pinned-socket.ts'
import { stateHome } from '../../core/base/state-home.ts'
import type { Check } from '../../core/commands/doctor-checks.ts'
import { brokerPort } from '../../core/protocol/mqtt-url.ts'
import { readEnrolments } from '../identity/enrolment.ts'

const timeoutMs = 3_000

interface Broker {
  readonly mqttUrl: string
  /** Of the bridge's TLS key, where the device enrolled with one. */
  readonly pin?: string | undefined
}

/** Lines of `brim doctor`: whether the bridges where this user's devices have enrolled can be reached. */
export async function checkBridges(io: Io): Promise<Check[]> {
  const agents = join(stateHome(io), 'brim/agents')
  const brokers = new Map<string, Broker>()
  for (const id of foldersIn(agents))
    for (const { mqttUrl, pin, foreignBroker } of readEnrolments(join(agents, id)))
      brokers.set(mqttUrl, { mqttUrl, pin: foreignBroker ? undefined : pin })
  return Promise.all([...brokers.values()].map(checkBroker))
}

export async function checkBroker({ mqttUrl, pin }: Broker): Promise<Check> {
  const { hostname, protocol } = new URL(mqttUrl)
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    if (pin !== undefined && /^(?:mqtts|wss):$/.test(protocol)) (await connectPinned(mqttUrl, pin, signal)).destroy()
    else await connectTcp(hostname.replace(/^\[(.*)\]$/, '$1'), brokerPort(mqttUrl), signal)
    return { name: 'bridge', status: 'ok', detail: `${mqttUrl} can be reached`, values: { url: mqttUrl } }
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
      detail: `${mqttUrl}: ${why}`,
      hint,
      code: 'BROKER_UNREACHABLE',
      values: { url: mqttUrl },
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
