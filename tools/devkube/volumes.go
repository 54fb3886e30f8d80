package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const storageClass = "devkube"

// Volumes gives every claim a folder of the node, and takes it back when the claim is gone. They are
// "local" volumes, not "hostPath": only for the former does the kubelet apply a Pod's fsGroup.
type Volumes struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	folder  string
	node    string
}

// serveVolumes takes "KUBECONFIG FOLDER NODE" and provides volumes until it is ended.
func serveVolumes(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("devkube volumes: got %q, expected a kubeconfig, a folder and a node", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer()} {
		if _, err := informer.AddEventHandler(whenever(changed)); err != nil {
			return err
		}
	}
	server := &Volumes{client, claims.Lister(), volumes.Lister(), args[1], args[2]}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	return server.serve(changed)
}

// whenever tells that something changed; what it was is looked up, so that nothing can be missed.
func whenever(changed chan<- struct{}) cache.ResourceEventHandler {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(any, any) { tell() },
		DeleteFunc: func(any) { tell() },
	}
}

func (v *Volumes) serve(changed <-chan struct{}) error {
	for {
		err := v.reconcile(context.Background())
		if err != nil {
			fmt.Printf("%s %v\n", time.Now().UTC().Format(time.RFC3339), err)
		}
		select {
		case <-changed:
		case <-time.After(30 * time.Second): // after an error
		}
	}
}

func (v *Volumes) reconcile(ctx context.Context) error {
	if err := v.makeClass(ctx); err != nil {
		return err
	}
	claims, err := v.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if v.isOurs(claim.Spec.StorageClassName) && claim.Spec.VolumeName == "" {
			if err := v.provide(ctx, claim); err != nil {
				return err
			}
		}
	}
	volumes, err := v.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		if v.isOurs(&volume.Spec.StorageClassName) && volume.Status.Phase == core.VolumeReleased {
			if err := v.takeBack(ctx, volume); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *Volumes) isOurs(class *string) bool { return class != nil && *class == storageClass }

func (v *Volumes) makeClass(ctx context.Context) error {
	immediately, kept := storage.VolumeBindingImmediate, core.PersistentVolumeReclaimRetain
	_, err := v.client.StorageV1().StorageClasses().Create(ctx, &storage.StorageClass{
		ObjectMeta: meta.ObjectMeta{
			Name:        storageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       "devkube.local/folder",
		VolumeBindingMode: &immediately,
		ReclaimPolicy:     &kept, // Kubernetes cannot delete a folder; takeBack does
	}, meta.CreateOptions{})
	return unless(errors.IsAlreadyExists, err)
}

// provide makes the volume that a claim waits for, already promised to that claim alone.
func (v *Volumes) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	name := "claim-" + string(claim.UID)
	path := filepath.Join(v.folder, name)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // whatever the umask: any user's Pod may write
		return err
	}
	_, err := v.client.CoreV1().PersistentVolumes().Create(ctx, &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: core.PersistentVolumeSpec{
			StorageClassName:              storageClass,
			PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimRetain,
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &core.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: core.PersistentVolumeSource{
				Local: &core.LocalVolumeSource{Path: path},
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: v.thisNode()},
		},
	}, meta.CreateOptions{})
	return unless(errors.IsAlreadyExists, err)
}

func (v *Volumes) thisNode() *core.NodeSelector {
	here := core.NodeSelectorRequirement{
		Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{v.node},
	}
	return &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{
		{MatchExpressions: []core.NodeSelectorRequirement{here}},
	}}
}

func (v *Volumes) takeBack(ctx context.Context, volume *core.PersistentVolume) error {
	err := v.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if err := unless(errors.IsNotFound, err); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(v.folder, volume.Name))
}

// unless is the error, unless it is one of this kind, which says that the work is done already.
func unless(is func(error) bool, err error) error {
	if is(err) {
		return nil
	}
	return err
}
