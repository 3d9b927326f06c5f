import { defineCommand } from '../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../administration.ts'
import { deviceOption } from './remote-command.ts'

export const command = defineCommand({
  examples: [['brim device revoke jetson-01', 'for a device that is lost or stolen']],
  options: { device: deviceOption, ...administrationOptions },
  async run({ json, device, ...options }, io) {
    const identity = await administer(options, io, (admin) => admin.revoke(device))
    io.out(json ? JSON.stringify(identity) : `device ${device} revoked`)
  },
})
