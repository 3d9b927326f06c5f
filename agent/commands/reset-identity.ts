import { defineCommand } from '../../core/kit/cli/command.ts'
import { Id } from '../../core/wire/protocol/id.ts'
import { agentStateDir, stateDirOption } from './state-dir.ts'

export const command = defineCommand({
  examples: [['brim agent reset-identity --id jetson-01', 'then enrol it again']],
  options: { id: Id.describe('name of the device'), stateDir: stateDirOption },
  async run({ id, stateDir, json }, io) {
    const { lockFolder } = await import('../../core/kit/store/lock-folder.ts')
    const { asOwner } = await import('../../core/kit/store/as-owner.ts')
    const { resetIdentity } = await import('../identity/enrolment.ts')
    const folder = agentStateDir(stateDir, id, io)
    const { publicKey } = await asOwner(folder, () => {
      // A running agent would continue with the old key until it ends.
      const unlock = lockFolder(folder)
      try {
        return resetIdentity(folder)
      } finally {
        unlock()
      }
    })
    io.out(json ? JSON.stringify({ device: id, publicKey }) : `device ${id} has a new key and is not enrolled`)
  },
})
