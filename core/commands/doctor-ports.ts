import { portIsFree } from '../kit/base/port-is-free.ts'
import type { Check } from './doctor-checks.ts'

/** Default ports of bridge (MQTT, MQTT over TLS, HTTP) and agent (API). */
const defaultPorts = { mqtt: 1883, mqtts: 8883, http: 7070, api: 7071 } as const

/** A port in use is no failure: Brim itself may be running. */
export async function checkPorts(ports: Readonly<Record<string, number>> = defaultPorts): Promise<Check> {
  const entries = Object.entries(ports)
  const inUse = await Promise.all(entries.map(async ([, port]) => ((await portIsFree(port)) ? [] : [port])))
  const taken = inUse.flat()
  const values = { ports: entries.map(([, port]) => String(port)), inUse: taken.map(String) }
  const named = entries.map(([name, port]) => `${port} (${name})`).join(', ')
  if (taken.length === 0) return { name: 'ports', status: 'ok', detail: `free: ${named}`, values }
  return {
    name: 'ports',
    status: 'warn',
    detail: `in use: ${taken.join(', ')} of ${named}`,
    hint: 'unless a bridge or agent of yours uses them: --mqtt-port, --http-port and --api-port choose others',
    values,
  }
}
