import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startPostgres } from '../../../lab/cluster/postgres.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { mosquittoMissing, startMosquitto } from '../../support/broker.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

describe.skipIf(postgresMissing() || mosquittoMissing())('processes of one bridge that start at once', () => {
  const dir = shared(tempDir)
  const postgres = shared(() => startPostgres())
  const broker = shared(startMosquitto)
  const upstream = { url: 'http://127.0.0.1:9/v1', model: 'none' }

  it.each(['first', 'second', 'third'])('are all ready, one as the primary: %s fleet', async (fleet) => {
    const bridges = await Promise.all(
      ['a', 'b', 'c'].map((node) =>
        startTestBridge({
          ...{ stateDir: join(dir.path, fleet, node), upstream, mqttPort: undefined, broker: { url: broker.url }, auth: false },
          ...{ fleet, database: { url: postgres.url, node } },
        }),
      ),
    )
    expect(bridges.filter(({ status }) => status.startsWith('ready'))).toHaveLength(1)
    expect(bridges.filter(({ status }) => /^standby, primary [abc],/.test(status))).toHaveLength(2)
    await Promise.all(bridges.map((bridge) => bridge.close()))
  })
})
