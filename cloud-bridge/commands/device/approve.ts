import { defineCommand } from '../../../core/kit/cli/command.ts'
import { administer, administrationOptions } from '../administration.ts'
import { deviceOption } from './remote-command.ts'

export const command = defineCommand({
  examples: [['brim device approve jetson-01', 'after it has enrolled with a token that needs approval']],
  options: { device: deviceOption, ...administrationOptions },
  async run({ json, device, ...options }, io) {
    const identity = await administer(options, io, (admin) => admin.approve(device))
    io.out(json ? JSON.stringify(identity) : `device ${device} approved`)
  },
})
