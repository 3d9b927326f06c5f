import { connectAsync, type MqttClient } from 'mqtt'
import { nowIso } from '../../core/kit/base/clock.ts'
import { disableNagle } from '../../core/kit/base/no-delay.ts'
import { JobEvent, ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import { BridgeState, type DeviceState } from '../../core/wire/protocol/messages.ts'
import { allBridgeStates, deviceTopic } from '../../core/wire/protocol/topics.ts'

type Run = Extract<ToJobDevice, { type: 'run' }>

interface JobDevice {
  readonly id: string
  /** Its access token; absent: it is not enrolled. */
  readonly token?: string
  /** Pause before it connects again; 0 or absent: never. */
  readonly reconnectMs?: number
}

/** Reports of a device that finishes a job at once. */
export function finishingEvents({ bridge, job, attempt }: Pick<Run, 'bridge' | 'job' | 'attempt'>): JobEvent[] {
  const reports = [{ type: 'accepted' }, { type: 'running' }, { type: 'succeeded', result: { text: 'Yes, it is.' } }]
  return reports.map((what, at) => JobEvent.parse({ v: 1, bridge, job, attempt, n: at + 1, at: nowIso(), ...what }))
}

/** A device that is one MQTT connection, and finishes each job at once. @param onRun before the job is accepted */
export async function connectJobDevice(
  mqttUrl: string,
  { id, token, reconnectMs = 0 }: JobDevice,
  onRun: (run: Run) => void,
): Promise<MqttClient> {
  const clientId = `device-${id}`
  const login = token === undefined ? {} : { username: clientId, password: token }
  const client = await connectAsync(mqttUrl, { clientId, ...login, protocolVersion: 4, reconnectPeriod: reconnectMs })
  disableNagle(client.stream)
  client.on('error', () => {})
  const topic = (leaf: 'state' | 'jobs' | 'events') => deviceTopic('default', id, leaf)
  const state: DeviceState = { v: 1, state: 'ready', birth: 1, at: nowIso(), jobs: ['slm.generate'] }
  const publishState = () => client.publishAsync(topic('state'), JSON.stringify(state), { qos: 1, retain: true })
  let birth = 0
  // As agents do: a bridge that has started does not trust what the broker has retained.
  function onBridgeState(bridge: BridgeState): void {
    if (bridge.state === 'ready' && bridge.birth > birth) void publishState().catch(() => {})
    birth = Math.max(birth, bridge.birth)
  }
  client.on('message', (on, payload) => {
    if (on !== topic('jobs')) return onBridgeState(BridgeState.parse(JSON.parse(payload.toString())))
    const message = ToJobDevice.parse(JSON.parse(payload.toString()))
    if (message.type !== 'run') return
    onRun(message)
    for (const event of finishingEvents(message)) client.publish(topic('events'), JSON.stringify(event), { qos: 1 })
  })
  await client.subscribeAsync([topic('jobs'), allBridgeStates('default')], { qos: 1 })
  await publishState()
  return client
}
