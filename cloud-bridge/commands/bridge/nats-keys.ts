import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { orThrow } from '../../../core/kit/base/errors.ts'
import { makeFolder, secretInto } from '../../../core/kit/base/private-file.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { createNatsCluster } from '../../broker/nats-admin.ts'

export const command = defineCommand({
  examples: [['brim bridge nats-keys keys --server nats://10.0.0.6:4222 --server nats://10.0.0.7:4222', 'then docs/brokers.md']],
  notes: 'Keep the file "admin" on the machine of the bridge: it gives control over the cluster.',
  options: {
    folder: z.string().min(1).describe('folder for the files "admin", of the bridge, and "brim-accounts.conf", of each node'),
    server: z
      .array(z.url({ protocol: /^(?:nats|tls)$/, error: 'must be a URL like nats://127.0.0.1:4222' }))
      .min(1)
      .describe('address of a node for NATS clients, nats://host:port or tls://host:port; repeat it for each node'),
  },
  async run({ folder, server, json }, io) {
    const [adminFile, accountsFile] = [join(folder, 'admin'), join(folder, 'brim-accounts.conf')]
    orThrow(() => makeFolder(folder), 'TARGET_UNWRITABLE', `${folder} cannot be created`, 'give a folder of your own')
    const create = () => createNatsCluster(server)
    const { accountsConf } = await secretInto(adminFile, create, ({ admin }) => JSON.stringify(admin))
    writeFileSync(accountsFile, accountsConf)
    if (json) return io.out(JSON.stringify({ adminFile, accountsFile }))
    io.out(`${accountsFile}  include it in the configuration of each node`)
    io.out(`${adminFile}  for brim bridge run --broker-admin-file`)
  },
})
