import { chmodSync, copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { startBridge } from '../../../cloud-bridge/bridge.ts'
import { identityTables } from '../../../cloud-bridge/identity/tables.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { tempDir } from '../../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))
const bundle = await ensureDemoBundle()

/** Where the MQTT of a bridge listens without --mqtt-port, or fails to: another program may have the port. */
async function portUsed(stateDir: string, tls?: { cert: string; key: string }): Promise<string> {
  try {
    const bridge = await startBridge({ bundle, stateDir, httpPort: 0, threads: 1, logLevel: 'silent', tls })
    await bridge.close()
    return bridge.mqttUrl
  } catch (error) {
    return /the MQTT broker cannot listen on (\S+?):? /.exec(`${(error as Error).message} `)?.[1] ?? String(error)
  }
}

it('MQTT is on port 1883, over TLS on 8883, and stays where devices of an earlier release have enrolled', async () => {
  using dir = tempDir()
  const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  copyFileSync(fixture('first.cert'), tls.cert)
  copyFileSync(fixture('first.key'), tls.key)
  chmodSync(tls.key, 0o600)
  expect(await portUsed(join(dir.path, 'plain'))).toMatch(/127\.0\.0\.1:1883$/)
  expect(await portUsed(join(dir.path, 'tls'), tls)).toMatch(/127\.0\.0\.1:8883$/)

  const earlier = join(dir.path, 'earlier')
  mkdirSync(earlier)
  const database = new Database(join(earlier, 'identity.sqlite'))
  for (const sql of identityTables.slice(0, 4)) database.exec(sql)
  database.pragma('user_version = 4')
  database.exec(`INSERT INTO identities (device, status, public_key, device_group, token_id, enrolled_at)
    VALUES ('jetson-01', 'approved', '${'A'.repeat(43)}', 'default', '01234567', '2026-01-01T00:00:00.000Z')`)
  database.close()
  expect(await portUsed(earlier, tls)).toMatch(/127\.0\.0\.1:1883$/)
})
