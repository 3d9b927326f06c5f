import type { Logger } from '../core/kit/base/logger.ts'
import type { ListenerLimits } from '../core/kit/listen/guard-listener.ts'
import { firstRequestMs, type HttpLimits, requestMs } from '../core/kit/listen/http-listener.ts'
import { shareOpenFiles } from '../core/policy/admission/open-files.ts'
import type { BridgeLimits } from './limits.ts'

export interface ListenerSettings {
  readonly mqtt: ListenerLimits
  readonly http: HttpLimits
}

/** Connections that are enough for most fleets: the default limits are for ten thousand devices. */
const manyDevices = 1_000
/** Open files for databases, logs and outgoing connections. */
const reservedFiles = 128
/** Connections to each listener that wait for their first or next request. */
const waitingConnections = 1_024
/** Time in which a client neither sends the rest of its request nor reads what the bridge has sent. */
const stalledMs = 120_000

/** @param maxFiles the process's limit of open files; Infinity: none */
export function listenerSettings(limits: BridgeLimits, maxFiles: number, logger: Logger): ListenerSettings {
  const wanted = { mqtt: limits.mqttConnections, http: limits.httpConnections }
  const shares = shareOpenFiles(wanted, maxFiles, reservedFiles)
  if (shares.mqtt < Math.min(wanted.mqtt, manyDevices))
    logger.warn({ maxFiles, ...shares }, 'few connections are accepted: the limit of open files is low (ulimit -n)')
  const each = {
    perNetwork: limits.connectionsPerNetwork,
    waiting: waitingConnections,
    firstRequestMs,
  }
  return {
    mqtt: { ...each, total: shares.mqtt },
    http: {
      connections: { ...each, total: shares.http },
      requestMs,
      stalledMs,
    },
  }
}
