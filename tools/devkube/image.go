package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// writeImage takes "NAME FILE" and writes, as an archive that `ctr images import` and
// `docker load` read, an image that holds and runs one static program.
func writeImage(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("devkube image: got %q, expected an image name and a program", args)
	}
	program, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	layer, err := archive(File{"program", program, 0o755})
	if err != nil {
		return err
	}
	config, err := json.Marshal(Object{
		"architecture": runtime.GOARCH,
		"os":           runtime.GOOS,
		"config":       Object{"Entrypoint": []string{"/program"}, "User": "65532:65532"},
		"rootfs": Object{
			"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))},
		},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]Object{{
		"Config": "config.json", "RepoTags": args[:1], "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(File{"manifest.json", manifest, 0o644},
		File{"config.json", config, 0o644}, File{"layer.tar", layer, 0o644})
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, bytes.NewReader(image))
	return err
}

// File is a file in an archive.
type File struct {
	Name    string
	Content []byte
	Mode    int64
}

func archive(files ...File) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, file := range files {
		header := &tar.Header{Name: file.Name, Mode: file.Mode, Size: int64(len(file.Content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
