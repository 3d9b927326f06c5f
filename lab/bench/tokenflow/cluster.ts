import type { Io } from '../../../core/kit/base/io.ts'
import { Cluster } from '../../cluster/cluster.ts'
import type { Cores } from '../../cluster/cores.ts'
import { cpuSeconds } from '../../cluster/cpu-times.ts'
import { laboratoryProgram } from '../../cluster/processes.ts'
import { argsOf, type ServerName } from './servers.ts'

interface FlowClusterOptions {
  readonly bundle: string
  readonly server: ServerName
  /** Of the fast tier. */
  readonly fastBytes: number
  readonly cores: Cores | undefined
  readonly io: Io
}

export type FlowCluster = Awaited<ReturnType<typeof startFlowCluster>>

/** A bridge without devices, whose clients ask it for answers. */
export function startFlowCluster({ bundle, server, fastBytes, cores, io }: FlowClusterOptions) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    // No prefix cache: no reader's prompt begins like another's, and cached KV would take memory from the streams.
    const args = [...argsOf(server), '--kv-budget-bytes', String(fastBytes), '--prefix-keep', '0']
    const bridge = await cluster.startBridge({ args, core: cores?.bridge, program: laboratoryProgram })
    return {
      httpUrl: bridge.ready.httpUrl,
      /** CPU time of the bridge so far, in seconds; undefined where the system does not report it. */
      cpuS: () => cpuSeconds([bridge.pid]),
    }
  })
}
