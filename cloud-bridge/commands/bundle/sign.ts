import { z } from 'zod'
import { defineCommand } from '../../../core/cli/command.ts'
import { readSigner } from '../../../core/signing/signature.ts'
import { addSignature } from '../../../core/signing/signature-file.ts'
import { readPackage } from './package.ts'

export const command = defineCommand({
  examples: [
    ['brim bundle sign qwen --key release.key', 'writes qwen/manifest.sig.json'],
    ['brim bundle sign brim-0.3.0-linux-arm64.tar.gz --key release.key', 'writes brim-0.3.0-linux-arm64.tar.gz.sig.json'],
  ],
  notes: 'A second key adds its signature: devices that trust either of them accept both.',
  options: {
    path: z.string().min(1).describe('folder of the bundle, or archive of the release'),
    key: z.string().min(1).describe('file with the private key, as "brim bundle keygen" makes it'),
  },
  async run({ path, key, json }, io) {
    const signer = readSigner(key)
    const { kind, sha256, signaturePath } = await readPackage(path)
    await addSignature(signaturePath, signer.sign(kind, sha256))
    const signed = { kind, sha256, publicKey: signer.publicKey, file: signaturePath }
    io.out(json ? JSON.stringify(signed) : `${signaturePath}: signed by ${signer.publicKey}`)
  },
})
